-- Schema 1, claiming: the one move made inside the store.
--
-- What is picked is read by the first statement that writes, so its snapshot is older than the
-- transaction's number: the number of whoever wrote what is claimed is less. That keeps a task's
-- events in order for readers, who go by that number.

-- How many each queue lets through now. Limited queues are held until the transaction ends.
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
-- A claim of this worker that may stand in the queues `p_stood` stands no more. This one does, for
-- `p_stands` ms, if it finds nothing (0: it does not).
CREATE FUNCTION claim_tasks(
    p_told bigint, p_me text, p_worker text, p_token text, p_queues integer[], p_limit integer,
    p_lease bigint, p_kinds integer[], p_room integer[], p_partition integer, p_stood integer[], p_number bigint,
    p_stands bigint, p_ear bigint
) RETURNS TABLE (
    seq bigint, definition bytea, state text, revision bigint, run text, fence bigint, worker text,
    token text, claimed_at bigint, lease_until bigint, heartbeat_at bigint, progress integer,
    message text, status bytea, result bytea, id text, told bigint, wanted text[], pos bigint
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE
    t bigint;
    before bigint[]; allowed integer[]; entries tid[]; tasks tid[]; awake text[];
    r record; room integer[] := p_room; at integer; looked integer := 0; left_of integer[];
    picking refcursor; wait bigint; bounded boolean; roomy boolean := true; first bigint;
BEGIN
    PERFORM lock_name('token ' || p_token);
    t := store_time(p_told);
    IF cardinality(p_stood) > 0 THEN
        PERFORM take_back(p_stood, p_worker);
    END IF;
    -- One look at all that is seldom there: each statement costs as much as two tasks.
    SELECT (SELECT c.seqs FROM claim c WHERE c.token = p_token),
        EXISTS (SELECT FROM queue c WHERE c.id = ANY (p_queues)
            AND (c.paused OR c.max_concurrent IS NOT NULL OR c.rate IS NOT NULL)),
        (SELECT array_agg(DISTINCT k) FROM sleeper s, unnest(s.kinds) k WHERE s.instance <> p_me)
    INTO before, bounded, awake;
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
    IF bounded THEN
        allowed := allowances(p_queues, p_limit, t);
    ELSE
        allowed := array_fill(p_limit, ARRAY[cardinality(p_queues)]);
    END IF;
    IF cardinality(p_room) > 0 THEN
        roomy := NOT EXISTS (SELECT FROM unnest(p_room) u WHERE u BETWEEN 1 AND p_limit - 1);
    END IF;

    IF roomy THEN
        SELECT array_agg(x.entry), array_agg(x.task) INTO entries, tasks FROM (
            SELECT y.* FROM unnest(p_queues, allowed) q (queue, most)
            CROSS JOIN LATERAL (
                SELECT z.* FROM (SELECT l.id, l.mark FROM lane l WHERE l.queue = q.queue
                    AND l.partition = p_partition ORDER BY l.level) l
                CROSS JOIN LATERAL (
                    SELECT e.ctid AS entry, k.ctid AS task FROM ready e JOIN task k ON k.seq = e.seq
                    WHERE e.lane = l.id AND e.ord >= l.mark AND (e.dead_at IS NULL OR e.dead_at > t)
                        AND e.kind <> ALL (p_kinds)
                    ORDER BY e.lane, e.ord, e.seq FOR UPDATE OF e, k SKIP LOCKED LIMIT q.most
                ) z LIMIT q.most
            ) y LIMIT p_limit
        ) x;
    ELSE
        left_of := allowed; entries := '{}'; tasks := '{}';
        OPEN picking FOR SELECT q.i, y.* FROM unnest(p_queues, allowed) WITH ORDINALITY q (queue, most, i)
            CROSS JOIN LATERAL (
                SELECT z.* FROM (SELECT l.id, l.mark FROM lane l WHERE l.queue = q.queue
                    AND l.partition = p_partition ORDER BY l.level) l
                CROSS JOIN LATERAL (
                    SELECT e.ctid AS entry, k.ctid AS task, e.kind FROM ready e JOIN task k ON k.seq = e.seq
                    WHERE e.lane = l.id AND e.ord >= l.mark AND (e.dead_at IS NULL OR e.dead_at > t)
                    ORDER BY e.lane, e.ord, e.seq FOR UPDATE OF e, k SKIP LOCKED
                ) z
            ) y WHERE q.most > 0;
        LOOP
            FETCH picking INTO r;
            looked := looked + 1;
            EXIT WHEN NOT FOUND OR looked > 2000;
            at := array_position(p_kinds, r.kind);
            CONTINUE WHEN left_of[r.i] <= 0 OR at IS NOT NULL AND room[at] <= 0;
            left_of[r.i] := left_of[r.i] - 1;
            IF at IS NOT NULL THEN
                room[at] := room[at] - 1;
            END IF;
            entries := entries || r.entry; tasks := tasks || r.task;
            EXIT WHEN cardinality(tasks) >= p_limit;
        END LOOP;
        CLOSE picking;
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
            UPDATE task k SET state = 'active', revision = k.revision + 1,
                timer = timer_from(t, least(t + p_lease, t + p.first_limit, p.dead_at)), run = p.run,
                fence = greatest(k.fence + 1, t), worker = p_worker, token = p_token, claimed_at = t,
                lease_until = t + p_lease, heartbeat_at = t, progress = 0, message = '', prev = k.last,
                last = p.place, asked = false
            FROM picks p WHERE k.ctid = p.task
            RETURNING k.seq, k.revision, k.run, k.fence, k.worker, k.body, p.place, p.pos, k.prev, k.queue,
                p.run_no, p.frees, p.i
        ), whole AS (
            SELECT s.*, d.id, d.body AS definition FROM stamped s
            CROSS JOIN LATERAL (SELECT x.id, x.body FROM definition x WHERE x.seq = s.seq OFFSET 0) d
        ), logged AS (
            INSERT INTO event (place, pos, seq, prev, at, revision, run_no, task, worker, run)
            SELECT w.place, w.pos, w.seq, w.prev, t, w.revision, w.run_no, w.id, w.worker, w.run FROM whole w
        ), freed AS (
            DELETE FROM unique_key u USING whole w
            WHERE w.frees IS NOT NULL AND u.key = w.frees AND u.id = w.id
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
        PERFORM stand(p_queues, p_stands, p_number, p_lease, p_ear, p_token, p_worker, t);
    END IF;
    IF bounded THEN
        SELECT min(ceil((1 - tokens(c.id, t)) * 1000 / c.rate)) INTO wait FROM queue c
        WHERE c.id = ANY (p_queues) AND c.rate > 0 AND NOT c.paused AND tokens(c.id, t) < 1;
    END IF;
    -- Dead entries are not handed out; their timers fire now and expire them (R6). OFFSET and the
    -- sum are for the planner.
    WITH dead AS (
        SELECT k.seq FROM lane l CROSS JOIN LATERAL (
            SELECT e.seq FROM ready e WHERE e.lane = l.id AND e.ord >= l.mark AND e.dead_at <= t
            ORDER BY e.lane, e.ord, e.seq OFFSET 0
        ) e JOIN task k ON k.seq = e.seq
        WHERE l.queue = ANY (p_queues) AND l.partition = p_partition AND k.timer - t > 0
        LIMIT 200 FOR UPDATE OF k SKIP LOCKED
    ), hurried AS (
        UPDATE task k SET timer = store_time(p_told) FROM dead d WHERE k.seq = d.seq RETURNING 1
    ) SELECT count(*) INTO looked FROM hurried;
    IF wait IS NOT NULL OR looked > 0 THEN
        RETURN QUERY SELECT NULL::bigint, NULL::bytea, NULL, NULL::bigint, NULL, NULL::bigint, NULL, NULL,
            NULL::bigint, wait, NULL::bigint, looked, NULL, NULL::bytea, NULL::bytea, NULL, t,
            awake, NULL::bigint;
    END IF;
END $$;
