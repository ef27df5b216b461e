-- Claiming: the one move made inside the store.
--
-- What is picked is read by the first statement that writes, so its snapshot is older than the
-- transaction's number: the number of whoever wrote what is claimed is less. That keeps a task's
-- events in order for readers, who go by that number.

-- How many tasks each queue lets through now. Limited queues are locked until the transaction ends.
CREATE FUNCTION allowances(p_queues integer[], p_limit integer, t bigint) RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE allowed integer[] := array_fill(p_limit, ARRAY[cardinality(p_queues)]); r record; n double precision;
BEGIN
    FOR r IN SELECT c.id FROM queue c WHERE c.id = ANY (p_queues)
        AND (c.max_concurrent IS NOT NULL OR c.rate IS NOT NULL) ORDER BY 1 LOOP
        PERFORM lock_name('claim ' || r.id);
    END LOOP;
    FOR r IN SELECT u.i, c.* FROM unnest(p_queues) WITH ORDINALITY u (id, i) JOIN queue c ON c.id = u.id LOOP
        n := CASE WHEN r.paused THEN 0 ELSE p_limit END;
        IF r.max_concurrent IS NOT NULL THEN
            n := least(n, r.max_concurrent - counted(r.id, 'active'));
        END IF;
        IF r.rate IS NOT NULL THEN
            n := least(n, floor(tokens(r.id, t)));
        END IF;
        allowed[r.i] := greatest(n, 0);
    END LOOP;
    RETURN allowed;
END $$;

-- What a queue's bucket holds now; it starts full.
CREATE FUNCTION tokens(q integer, t bigint) RETURNS double precision
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN (SELECT least(c.burst, coalesce(b.tokens + (t - b.at) * c.rate / 1000, c.burst))
        FROM queue c LEFT JOIN bucket b ON b.queue = c.id WHERE c.id = q);
END $$;

-- Rows: the records as they were before this claim, with what it stamped on each (run, fence); the
-- rest of the stamp is what was asked for, at the time `told`. Records of a claim that is repeated
-- come as they are now, with their state. One more row without a record may tell, in `lease_until`,
-- in how many ms a bucket that gave out will hold something again, and in `progress`, how many dead
-- entries were made due.
--
-- `p_code` is what the worker has code for (`code`; 0: it may claim everything). Of kinds about which
-- that is not decided yet, one row has the list in `wanted`; then nothing was claimed, and the caller sends
-- the claim again once they are decided. With `p_decided`, undecided kinds are not claimed.
--
-- `p_full` are types that the worker has no room for, `p_types` those of which it has room for fewer
-- than `p_limit`, each beside its `p_room`.
--
-- A claim of this worker that may stand in the queues `p_stood` stands no more. This one does, for
-- `p_stands` ms, if it finds nothing (0: it does not).
CREATE FUNCTION claim_tasks(
    p_told bigint, p_me text, p_worker text, p_token text, p_queues integer[], p_limit integer,
    p_lease bigint, p_full integer[], p_types integer[], p_room integer[], p_partition integer, p_stood integer[],
    p_number bigint, p_stands bigint, p_ear bigint, p_code integer, p_decided boolean
) RETURNS TABLE (
    seq bigint, definition bytea, state text, revision bigint, run text, fence bigint, worker text,
    token text, claimed_at bigint, lease_until bigint, heartbeat_at bigint, progress integer,
    message text, status bytea, result bytea, id text, told bigint, wanted text[], pos bigint
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE
    t bigint;
    before bigint[]; allowed integer[]; entries tid[]; tasks tid[]; awake text[];
    looked integer := 0; wait bigint; bounded boolean; first bigint;
    lanes lane[];  -- that it may claim from, by queue as asked, then by level
    undecided integer[]; in_turn boolean := true;
BEGIN
    PERFORM lock_name('token ' || p_token);
    t := store_time(p_told);
    IF cardinality(p_stood) > 0 THEN
        PERFORM take_back(p_stood, p_worker);
    END IF;
    LOOP
        -- One statement looks for all that is seldom there: each statement costs as much as two tasks.
        -- Lanes as whole rows: an array for each of their columns would cost as much as the look at them.
        SELECT (SELECT c.seqs FROM claim c WHERE c.token = p_token),
            EXISTS (SELECT FROM queue c WHERE c.id = ANY (p_queues)
                AND (c.paused OR c.max_concurrent IS NOT NULL OR c.rate IS NOT NULL)),
            (SELECT array_agg(DISTINCT k) FROM sleeper s, unnest(s.kinds) k WHERE s.instance <> p_me),
            array_agg(l.lane) FILTER (WHERE m.may OR p_code = 0),
            array_agg(l.kind) FILTER (WHERE m.may IS NULL AND p_code <> 0)
        INTO before, bounded, awake, lanes, undecided
        FROM unnest(p_queues) q (queue)
        CROSS JOIN LATERAL (
            SELECT z AS lane, z.kind FROM lane z WHERE z.queue = q.queue AND z.partition = p_partition AND z.quiet < 2
                AND z.type <> ALL (p_full)
            ORDER BY z.level OFFSET 0
        ) l LEFT JOIN claimable m ON m.code = p_code AND m.kind = l.kind;
        IF before IS NOT NULL THEN
            RETURN QUERY SELECT k.seq, k.definition, k.state, k.revision, k.run, k.fence, k.worker, k.token,
                k.claimed_at, k.lease_until, k.heartbeat_at, k.progress, k.message, k.status, k.result, k.id,
                t, NULL::text[], NULL::bigint
            FROM task_record k WHERE k.seq = ANY (before) AND k.state = 'active'
                AND starts_with(k.run, p_token || '-') ORDER BY array_position(before, k.seq);
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        IF undecided IS NOT NULL AND NOT p_decided THEN
            RETURN QUERY SELECT NULL::bigint, NULL::bytea, 'undecided', NULL::bigint, NULL, NULL::bigint, NULL, NULL,
                NULL::bigint, NULL::bigint, NULL::bigint, NULL::integer, NULL, NULL::bytea, NULL::bytea, NULL, t,
                (SELECT array_agg(DISTINCT n.name) FROM name n WHERE n.id = ANY (undecided)), NULL::bigint;
            RETURN;
        END IF;
        -- Where a queue has limits, others that claim there are waited for; then it looks again.
        EXIT WHEN NOT bounded OR allowed IS NOT NULL;
        allowed := allowances(p_queues, p_limit, t);
    END LOOP;
    IF allowed IS NULL THEN
        allowed := array_fill(p_limit, ARRAY[cardinality(p_queues)]);
    END IF;
    IF cardinality(lanes) > 1 THEN
        -- Whether one lane after the other can be claimed from: those that come mixed by their order, or
        -- share what room there is, cannot.
        SELECT count(*) = count(DISTINCT CASE WHEN bounded THEN l.queue::text ELSE concat(l.queue, ' ', l.level) END)
            AND count(l.type) FILTER (WHERE l.type = ANY (p_types))
                = count(DISTINCT l.type) FILTER (WHERE l.type = ANY (p_types))
        INTO in_turn FROM unnest(lanes) l;
    END IF;
    IF in_turn THEN
        SELECT array_agg(x.entry), array_agg(x.task) INTO entries, tasks FROM (
            SELECT z.* FROM unnest(lanes) l
            CROSS JOIN LATERAL (
                SELECT e.ctid AS entry, k.ctid AS task FROM ready e JOIN task k ON k.seq = ANY (ARRAY[e.seq])
                WHERE e.lane = l.id AND e.ord >= l.mark AND (e.dead_at IS NULL OR e.dead_at > t)
                ORDER BY e.lane, e.ord, e.seq FOR UPDATE OF e, k SKIP LOCKED
                LIMIT least(allowed[array_position(p_queues, l.queue)], p_room[array_position(p_types, l.type)])
            ) z LIMIT p_limit
        ) x;
    ELSE
        SELECT x.entries, x.tasks INTO entries, tasks
        FROM (
            SELECT array_agg(l.id) AS ids, array_agg(l.mark) AS marks, array_agg(l.level) AS levels,
                array_agg(l.type) AS types, array_agg(array_position(p_queues, l.queue)::bigint) AS places
            FROM unnest(lanes) l
        ) y CROSS JOIN LATERAL pick_in_order(
            y.ids, y.marks, y.places, y.levels, y.types, allowed, p_types, p_room, p_limit, t) x;
    END IF;

    -- Both rows are locked, so they stay where they are, the transaction has its number, and what was
    -- written of them before was written before this time: some of it may be younger than the call.
    IF cardinality(tasks) > 0 THEN
        t := store_time(p_told);
        first := place_of(0);
        -- LIMIT and OFFSET take none away: they are for the planner, see `commit_ends`.
        RETURN QUERY
        WITH picks AS (
            DELETE FROM ready e USING (
                SELECT x.* FROM unnest(entries, tasks) WITH ORDINALITY x (entry, task, i) LIMIT p_limit
            ) u
            WHERE e.ctid = u.entry
            RETURNING u.i, u.task, e.dead_at, e.first_limit, e.run_no, e.frees, first + u.i AS place,
                nextval('event_pos') AS pos,
                p_token || '-' || (u.i - 1 + coalesce(cardinality(before), 0)) AS run
        ), stamped AS (
            UPDATE task k SET ({{stamp_columns}}) = ROW ({{stamp_values}})
            FROM (SELECT p.*, p_lease AS lease, p_worker AS worker, p_token AS token FROM picks p) c
            WHERE k.ctid = c.task
            RETURNING k.seq, k.revision, k.run, k.fence, k.worker, k.body, c.place, c.pos, k.prev, k.queue,
                c.run_no, c.frees, c.i
        ), whole AS (
            SELECT s.*, d.id, d.body AS definition FROM stamped s
            CROSS JOIN LATERAL (SELECT x.id, x.body FROM definition x WHERE x.seq = s.seq OFFSET 0) d
        ), logged AS (
            INSERT INTO event (place, pos, seq, prev, at, revision, run_no, task, worker, run)
            SELECT w.place, w.pos, w.seq, w.prev, t, w.revision, w.run_no, w.id, w.worker, w.run FROM whole w
        ), freed AS (
            DELETE FROM unique_key u USING whole w
            WHERE w.frees IS NOT NULL AND u.key = ANY (ARRAY[w.frees]) AND u.id = w.id
        ), counted AS (
            INSERT INTO delta (queue, n, state, was)
            SELECT w.queue, count(*), 'active', 'pending' FROM stamped w GROUP BY w.queue
        ), drawn AS (
            INSERT INTO bucket AS b (queue, tokens, at)
            SELECT c.id, tokens(c.id, t) - count(*), t FROM stamped w JOIN queue c ON c.id = w.queue
            WHERE c.rate IS NOT NULL GROUP BY c.id
            ON CONFLICT (queue) DO UPDATE SET tokens = excluded.tokens, at = excluded.at
        ), noted AS (
            INSERT INTO claim AS c (token, at, seqs)
            SELECT p_token, t, coalesce(before, '{}') || array_agg(w.seq ORDER BY w.i) FROM stamped w
            ON CONFLICT (token) DO UPDATE SET at = excluded.at, seqs = excluded.seqs
        )
        SELECT w.seq, w.definition, NULL, NULL::bigint, w.run, w.fence, NULL, NULL, NULL::bigint, NULL::bigint,
            NULL::bigint, NULL::integer, NULL, w.body, NULL::bytea, NULL, t, awake, w.pos
        FROM whole w ORDER BY w.i;
    END IF;

    IF coalesce(cardinality(tasks), 0) >= p_limit THEN
        RETURN;
    END IF;
    IF p_stands > 0 AND coalesce(cardinality(tasks), 0) = 0 AND before IS NULL AND NOT bounded THEN
        PERFORM stand(p_queues, p_stands, p_number, p_lease, p_ear, p_token, p_worker, p_code, t);
    END IF;
    IF bounded THEN
        SELECT min(ceil((1 - tokens(c.id, t)) * 1000 / c.rate)) INTO wait FROM queue c
        WHERE c.id = ANY (p_queues) AND c.rate > 0 AND NOT c.paused AND tokens(c.id, t) < 1;
    END IF;
    -- Dead entries are not handed out; their timers fire now and expire them (docs/rulings.md, R6).
    WITH dead AS (
        SELECT k.seq FROM (
            SELECT e.seq FROM ready e WHERE e.dead_at <= t ORDER BY e.dead_at LIMIT 200
        ) e JOIN task k ON k.seq = ANY (ARRAY[e.seq]) WHERE k.timer - t > 0 FOR UPDATE OF k SKIP LOCKED
    ), hurried AS (
        UPDATE task k SET timer = store_time(p_told) FROM dead d WHERE k.seq = ANY (ARRAY[d.seq]) RETURNING 1
    ) SELECT count(*) INTO looked FROM hurried;
    IF wait IS NOT NULL OR looked > 0 THEN
        RETURN QUERY SELECT NULL::bigint, NULL::bytea, NULL, NULL::bigint, NULL, NULL::bigint, NULL, NULL,
            NULL::bigint, wait, NULL::bigint, looked, NULL, NULL::bytea, NULL::bytea, NULL, t,
            awake, NULL::bigint;
    END IF;
END $$;
