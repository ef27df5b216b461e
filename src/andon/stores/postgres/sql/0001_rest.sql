-- Schema 1, everything that is not create, claim and commit.

-- Renewals: the run cell only; no index, no revision, no event (R4). Verdicts: ok, cancel, lost.
CREATE FUNCTION renew_runs(
    p_told bigint, p_me text, p_ids text[], p_runs text[], p_leases bigint[], p_beats boolean[],
    p_progress integer[], p_messages text[],
    OUT told bigint, OUT wanted text[], OUT verdicts text[]
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := store_time(p_told); r record;
BEGIN
    told := t;
    verdicts := array_fill('lost'::text, ARRAY[cardinality(p_ids)]);
    FOR r IN
        WITH u AS MATERIALIZED (  -- for the planner, see `commit_ends`
            SELECT d.seq, u.* FROM (
                SELECT x.* FROM unnest(p_ids, p_runs, p_leases, p_beats, p_progress, p_messages)
                    WITH ORDINALITY x (id, run, lease, beat, progress, message, i) LIMIT cardinality(p_ids)) u
            CROSS JOIN LATERAL (SELECT x.seq FROM definition x WHERE x.id = u.id OFFSET 0) d ORDER BY d.seq
        )
        UPDATE task k SET lease_until = greatest(k.lease_until, t + u.lease),
            heartbeat_at = CASE WHEN u.beat THEN t ELSE k.heartbeat_at END,
            progress = coalesce(u.progress, k.progress), message = coalesce(u.message, k.message)
        FROM u WHERE k.seq = u.seq AND k.state = 'active' AND k.run = u.run
        RETURNING u.i, k.asked
    LOOP
        verdicts[r.i] := CASE WHEN r.asked THEN 'cancel' ELSE 'ok' END;
    END LOOP;
    wanted := sleepers(p_me);
END $$;

-- Tasks whose timer has passed, pushed on by `hold`. A last row without a record tells, in
-- `claimed_at` and `lease_until`, the time and the next timer, and in `message` the numbers of the
-- queues in which `keep` let something through; it is called first if `p_keep`. Leases that ran out while nobody kept
-- time for longer than `p_jump` (the store was away, or every timekeeper) wait one more lease (R19).
CREATE FUNCTION take_due(
    p_told bigint, p_partition integer, p_limit integer, p_hold bigint, p_jump bigint, p_patience bigint,
    p_keep boolean
) RETURNS SETOF task_record LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint; seen bigint; wait bigint; seqs bigint[]; early bigint[]; woken integer[]; first bigint;
BEGIN
    IF p_keep THEN
        woken := keep(p_told);
        PERFORM move_timer_mark(p_told, p_partition);
    END IF;
    t := store_time(p_told);  -- `keep` may have waited
    first := coalesce((SELECT k.mark FROM timekept k WHERE k.partition = p_partition), -9223372036854775808);
    SELECT value::bigint INTO seen FROM meta WHERE name = 'kept_at';
    IF p_jump > 0 AND (seen IS NULL OR t - seen > 3000) THEN
        IF seen IS NOT NULL AND t - seen > p_jump THEN
            INSERT INTO meta AS m (name, value) VALUES ('leases_wait', (t + p_patience)::text)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value;
        END IF;
        INSERT INTO meta AS m (name, value) VALUES ('kept_at', t::text)
        ON CONFLICT (name) DO UPDATE SET value = greatest(m.value::bigint, t)::text;
    END IF;
    IF EXISTS (SELECT FROM task k WHERE k.partition = p_partition AND k.timer >= first AND k.timer <= t) THEN
        wait := (SELECT value::bigint FROM meta WHERE name = 'leases_wait');
        SELECT array_agg(x.seq) INTO seqs FROM (
            SELECT k.seq FROM task k WHERE k.partition = p_partition AND k.timer >= first AND k.timer <= t
            ORDER BY k.timer LIMIT p_limit FOR UPDATE SKIP LOCKED) x;
        IF p_jump > 0 AND wait > t THEN
            WITH put AS (
                UPDATE task k SET timer = wait WHERE k.seq = ANY (seqs) AND k.state = 'active'
                    AND k.lease_until <= t RETURNING k.seq
            ) SELECT array_agg(seq) INTO early FROM put;
            seqs := ARRAY(SELECT u FROM unnest(seqs) u WHERE early IS NULL OR u <> ALL (early));
        END IF;
        UPDATE task k SET timer = t + p_hold WHERE k.seq = ANY (seqs);
        RETURN QUERY SELECT k.* FROM task_record k WHERE k.seq = ANY (seqs) ORDER BY array_position(seqs, k.seq);
    END IF;
    RETURN QUERY SELECT NULL::bigint, NULL::bytea, NULL::text, NULL::bigint, NULL::text, NULL::bigint, NULL::text,
        NULL::text, t, (SELECT min(k.timer) FROM task k WHERE k.partition = p_partition AND k.timer > t),
        NULL::bigint, NULL::integer, array_to_string(woken, ' '), NULL::bytea, NULL::bytea, NULL::text, NULL::bigint;
END $$;

-- Move on the mark of a partition's timers, see `timekept`. What a clock may jump back: a second. If
-- it went back further, as after a failover to a host that is behind, timers were set before the mark:
-- so then, and once a minute whatever is known, all timers are looked at and the mark moves back.
CREATE FUNCTION move_timer_mark(p_told bigint, p_partition integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE t bigint := store_time(p_told); k timekept; low bigint; high bigint;
BEGIN
    SELECT x.* INTO k FROM timekept x WHERE x.partition = p_partition;
    low := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    high := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    IF k IS NULL THEN
        INSERT INTO timekept (partition, mark, since, before_xid)
        VALUES (p_partition, -9223372036854775808, t, high) ON CONFLICT DO NOTHING;
    ELSIF low >= k.before_xid AND t - k.since NOT BETWEEN 0 AND 999 THEN
        IF t < k.since OR t / 60000 > k.since / 60000 THEN
            k.mark := 0;
        END IF;
        UPDATE timekept x SET since = t, before_xid = high, mark = least(k.since - 1000, t - 1000,
            (SELECT min(u.timer) FROM task u WHERE u.partition = p_partition AND u.timer >= k.mark))
        WHERE x.partition = p_partition AND x.since = k.since;
    END IF;
END $$;

-- What the timekeeper does besides: fold the counts, let parked tasks of users' transactions
-- through, move the marks of busy lanes on, forget sleepers whose session has ended. Queues in which
-- something was let through.
CREATE FUNCTION keep(p_told bigint) RETURNS integer[] LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t bigint := store_time(p_told); r record; woken integer[] := '{}'; moving integer[];
    counts_from bigint; low bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' keep', 0)) THEN
        RETURN woken;
    END IF;
    low := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    counts_from := (SELECT m.value::bigint FROM meta m WHERE m.name = 'counts_from');
    IF low < counts_from THEN  -- the namespace was restored on a server whose numbers are lower
        counts_from := 0;
    END IF;
    WITH gone AS (DELETE FROM delta d WHERE d.xid >= counts_from RETURNING d.*),
    sums AS (
        SELECT g.queue, x.state, sum(x.n) AS n
        FROM gone g CROSS JOIN LATERAL (VALUES (g.state, g.n), (g.was, -g.n)) x (state, n)
        WHERE x.state IS NOT NULL GROUP BY 1, 2
    ),
    folded AS (
        INSERT INTO counter AS c (queue, state, n) SELECT s.queue, s.state, s.n FROM sums s
        ON CONFLICT (queue, state) DO UPDATE SET n = c.n + excluded.n
    )
    SELECT array_agg(DISTINCT s.queue) INTO moving FROM sums s WHERE s.state IN ('pending', 'active');
    IF moving IS NOT NULL OR low > counts_from + 1000 THEN
        UPDATE meta m SET value = low::text WHERE m.name = 'counts_from' AND m.value <> low::text;
    END IF;
    -- From the beginning: what a transaction entered at its old place before the mark had come so far,
    -- and committed after, is found here (its count has just been folded), and moves the mark back.
    UPDATE lane l SET mark = x.mark, busy = CASE WHEN x.is_busy THEN t + 15000 ELSE l.busy END FROM (
        SELECT y.id, coalesce(y.queue = ANY (moving), false) AS is_busy, least(t - 1000,
            (SELECT e.ord FROM ready e WHERE e.lane = y.id ORDER BY e.lane, e.ord LIMIT 1)) AS mark
        FROM lane y WHERE y.queue = ANY (moving) OR y.busy > t) x
    WHERE l.id = x.id AND l.mark <> x.mark;
    FOR r IN SELECT DISTINCT p.queue, p.key FROM promotion p ORDER BY 1, 2 LIMIT 500 LOOP
        PERFORM hold_keys(ARRAY[r.queue], ARRAY[r.key]);
        DELETE FROM promotion p WHERE p.queue = r.queue AND p.key = r.key;
        IF promote(r.queue, r.key) > 0 THEN
            woken := woken || r.queue;
        END IF;
    END LOOP;
    DELETE FROM sleeper s WHERE NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = s.pid);
    RETURN woken;
END $$;

-- Set timers anew, unless a move has set its own since they were taken.
CREATE FUNCTION rearm(p_told bigint, p_ids text[], p_timers bigint[], p_held bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := write_time(p_told);
BEGIN
    UPDATE task k SET timer = timer_from(t, u.timer)
    FROM (SELECT d.seq, u.timer, u.held FROM unnest(p_ids, p_timers, p_held) u (id, timer, held)
        JOIN definition d ON d.id = u.id ORDER BY d.seq) u
    WHERE k.seq = u.seq AND k.timer = u.held;
END $$;

-- --- dependencies; everything here is idempotent ---

-- The state of a task, or the one that it was in when it was deleted within the submit window.
CREATE FUNCTION state_of(p_id text, t bigint) RETURNS text LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
BEGIN
    RETURN coalesce((SELECT k.state FROM definition d JOIN task k USING (seq) WHERE d.id = p_id),
        (SELECT s.state FROM stub s WHERE s.id = p_id AND s.at > t - 600000));
END $$;

-- Edges of one child; rows: parents that have ended (state NULL: that do not exist).
CREATE FUNCTION link_child(p_told bigint, p_child text, p_parents text[], p_loads boolean, p_any boolean)
RETURNS TABLE (parent text, state text) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := store_time(p_told);
BEGIN
    IF state_of(p_child, t) IS DISTINCT FROM 'blocked' THEN
        RETURN;
    END IF;
    -- Parents may neither end nor go while the edges are written: who ends one sees its edges.
    PERFORM FROM task k WHERE k.seq IN (SELECT d.seq FROM definition d WHERE d.id = ANY (p_parents))
    ORDER BY k.seq FOR SHARE;
    FOR parent IN SELECT u FROM unnest(p_parents) u WHERE u <> p_child LOOP
        IF EXISTS (SELECT FROM satisfied s WHERE s.child = p_child AND s.parent = link_child.parent) THEN
            -- Counted off already, but perhaps the child was not told that it is free.
            IF p_loads AND EXISTS (SELECT FROM definition d WHERE d.id = link_child.parent) THEN
                INSERT INTO edge VALUES (link_child.parent, p_child, p_loads, p_any, true) ON CONFLICT DO NOTHING;
            END IF;
            state := 'completed';
            RETURN NEXT;
            CONTINUE;
        END IF;
        state := state_of(parent, t);
        IF state IN ('blocked', 'scheduled', 'pending', 'active', 'retry') THEN
            INSERT INTO edge AS e VALUES (link_child.parent, p_child, p_loads, p_any, false)
            ON CONFLICT (parent, child) DO UPDATE SET settled = false;
            CONTINUE;
        END IF;
        IF state IS NOT NULL AND state <> 'unknown' AND (p_loads OR NOT (p_any OR state = 'completed'))
            AND EXISTS (SELECT FROM definition d WHERE d.id = link_child.parent) THEN
            -- Keeps a parent whose result is loaded, and lets a rerun of one that failed satisfy yet.
            INSERT INTO edge VALUES (link_child.parent, p_child, p_loads, p_any, true) ON CONFLICT DO NOTHING;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION settle_edges(
    p_told bigint, p_children text[], p_parents text[], p_satisfied boolean[], OUT remaining bigint[], OUT due boolean
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := write_time(p_told); r record; n bigint;
BEGIN
    due := false;
    remaining := array_fill(0::bigint, ARRAY[cardinality(p_children)]);
    -- The counts first, in one order: of two at once, one sees the other's marks.
    PERFORM FROM fan_in f WHERE f.child IN (SELECT unnest(p_children)) ORDER BY f.child FOR UPDATE;
    FOR r IN SELECT u.* FROM unnest(p_children, p_parents, p_satisfied) WITH ORDINALITY u (child, parent, satisfied, i)
        ORDER BY u.i LOOP
        UPDATE edge e SET settled = true WHERE e.parent = r.parent AND e.child = r.child AND NOT e.settled;
        IF r.satisfied THEN
            PERFORM FROM fan_in f WHERE f.child = r.child;
            IF FOUND THEN
                INSERT INTO satisfied VALUES (r.child, r.parent) ON CONFLICT DO NOTHING;
                IF FOUND THEN
                    UPDATE fan_in f SET remaining = f.remaining - 1 WHERE f.child = r.child;
                END IF;
            END IF;
        END IF;
        -- A child that has left `blocked` has no count any more: nothing remains.
        remaining[r.i] := coalesce((SELECT f.remaining FROM fan_in f WHERE f.child = r.child), 0);
    END LOOP;
    FOR r IN SELECT DISTINCT u AS parent FROM unnest(p_parents) u ORDER BY 1 LOOP
        due := let_go(r.parent, t) OR due;
    END LOOP;
END $$;

-- Forget edges, settled or not; whether a deletion put off is due again.
CREATE FUNCTION unlink_edges(p_told bigint, p_parents text[], p_children text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := write_time(p_told); r record; due boolean := false;
BEGIN
    DELETE FROM edge e USING unnest(p_parents, p_children) u (parent, child)
    WHERE e.parent = u.parent AND e.child = u.child;
    FOR r IN SELECT DISTINCT u AS parent FROM unnest(p_parents) u ORDER BY 1 LOOP
        due := let_go(r.parent, t) OR due;
    END LOOP;
    RETURN due;
END $$;

-- --- configuration ---

-- Replace a queue's configuration: park what a limit per key leaves no room for, let the rest through.
CREATE FUNCTION put_queue(
    q integer, p_body bytea, p_paused boolean, p_max_concurrent integer, p_per_key integer, p_max_size integer,
    p_rate double precision, p_burst double precision
) RETURNS void LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE r record;
BEGIN
    PERFORM lock_name('limits ' || q);
    PERFORM lock_name('claim ' || q);
    INSERT INTO queue AS c VALUES (q, p_body, p_paused, p_max_concurrent, p_per_key, p_max_size, p_rate, p_burst)
    ON CONFLICT (id) DO UPDATE SET body = excluded.body, paused = excluded.paused,
        max_concurrent = excluded.max_concurrent, per_key = excluded.per_key, max_size = excluded.max_size,
        rate = excluded.rate, burst = excluded.burst;
    DELETE FROM admitted WHERE queue = q;
    IF p_per_key IS NOT NULL THEN
        -- Claims go on meanwhile: they do not change how many are ready or active, and what one of
        -- them took is not found any more when it is to be parked.
        INSERT INTO admitted (queue, key, n)
        SELECT q, k.key, count(*) FROM task k
        WHERE k.queue = q AND k.key IS NOT NULL AND (k.state = 'active' OR k.state = 'pending'
            AND NOT EXISTS (SELECT FROM parked p WHERE p.queue = q AND p.key = k.key AND p.seq = k.seq))
            AND k.state IN ('active', 'pending')
        GROUP BY k.key;
        FOR r IN
            SELECT x.* FROM (
                SELECT e.*, k.key, l.level, a.n - p_per_key AS surplus,
                    row_number() OVER (PARTITION BY k.key ORDER BY l.level DESC, e.ord DESC, e.seq DESC) AS nth
                FROM lane l JOIN ready e ON e.lane = l.id JOIN task k ON k.seq = e.seq
                JOIN admitted a ON a.queue = q AND a.key = k.key
                WHERE l.queue = q AND k.key IS NOT NULL AND a.n > p_per_key
            ) x WHERE x.nth <= x.surplus
        LOOP
            DELETE FROM ready e WHERE e.lane = r.lane AND e.ord = r.ord AND e.seq = r.seq;
            CONTINUE WHEN NOT FOUND;
            INSERT INTO parked (queue, key, level, ord, seq, lane, kind, dead_at, first_limit, run_no, frees)
            VALUES (q, r.key, r.level, r.ord, r.seq, r.lane, r.kind, r.dead_at, r.first_limit, r.run_no, r.frees);
            INSERT INTO delta (queue, n, state) VALUES (q, 1, '+parked');
            PERFORM admit(q, r.key, -1);
        END LOOP;
    END IF;
    FOR r IN SELECT DISTINCT p.key FROM parked p WHERE p.queue = q LOOP
        PERFORM promote(q, r.key);
    END LOOP;
END $$;

-- Move the start of the event log on, and drop what nothing needs any more; how many passed. An
-- event whose record lives stays for the record's history; only the log's start passes it.
CREATE FUNCTION trim_log(p_told bigint, p_limit integer, p_most bigint, p_kept bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE
    t bigint := store_time(p_told); r record; n bigint := 0; start bigint; total bigint;
    dropped bigint[] := '{}'; tasks bigint[] := '{}'; stubs bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' trim', 0)) THEN
        RETURN 0;
    END IF;
    SELECT value::bigint INTO start FROM meta WHERE name = 'log_start';
    SELECT last_value INTO total FROM event_pos;
    FOR r IN SELECT e.place, e.pos, e.seq, e.at, EXISTS (SELECT FROM task k WHERE k.seq = e.seq) AS lives FROM event e
        WHERE e.place > start AND e.place < place_final() ORDER BY e.place LIMIT p_limit LOOP
        EXIT WHEN r.at > t - p_kept AND r.pos > total - p_most;
        n := n + 1;
        start := r.place;
        IF NOT r.lives THEN
            dropped := dropped || r.place; tasks := tasks || r.seq;
        END IF;
    END LOOP;
    IF n > 0 THEN
        DELETE FROM event e USING unnest(dropped, tasks) u (place, seq) WHERE e.place = u.place AND e.seq = u.seq;
        UPDATE meta SET value = start::text WHERE name = 'log_start';
    END IF;
    DELETE FROM stub s WHERE s.id IN (SELECT x.id FROM stub x WHERE x.at < t - 600000 LIMIT p_limit);
    GET DIAGNOSTICS stubs = ROW_COUNT;
    DELETE FROM claim c WHERE c.token IN (SELECT x.token FROM claim x WHERE x.at < t - 120000 LIMIT 30000);
    DELETE FROM worker w WHERE w.seen_at < t - 60000;
    RETURN n + stubs;
END $$;
