-- Timers, and what a timekeeper does besides.

-- Tasks whose timer has passed, pushed on by `hold`. A last row without a record tells, in
-- `claimed_at` and `lease_until`, the time and the next timer, and in `message` the numbers of the
-- queues in which `keep` let something through; it is called first if `p_keep`. Leases that ran out while nobody kept
-- time for longer than `p_jump` (the store was away, or every timekeeper) wait one more lease
-- (docs/rulings.md, R19).
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
    IF p_keep AND p_jump > 0 THEN
        PERFORM keep_clock(greatest(p_told, (SELECT value::bigint FROM meta WHERE name = 'kept_at')));
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
        NULL::text, t,
        (SELECT k.timer FROM task k WHERE k.partition = p_partition AND k.timer > t ORDER BY k.timer LIMIT 1),
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
            (SELECT u.timer FROM task u WHERE u.partition = p_partition AND u.timer >= k.mark ORDER BY u.timer LIMIT 1))
        WHERE x.partition = p_partition AND x.since = k.since;
    END IF;
END $$;

-- What the timekeeper does besides: fold the counts, let parked tasks of users' transactions
-- through, keep the lanes, forget sleepers whose session has ended. Queues in which
-- something was let through.
CREATE FUNCTION keep(p_told bigint) RETURNS integer[] LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t bigint := store_time(p_told); r record; woken integer[] := '{}'; moving integer[];
    counts_from bigint; low bigint; high bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' keep', 0)) THEN
        RETURN woken;
    END IF;
    low := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    high := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
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
    ),
    tallied AS (
        INSERT INTO daily AS y (day, queue, tally, n)
        SELECT g.day, g.queue, g.tally, sum(g.n) FROM gone g WHERE g.tally IS NOT NULL GROUP BY 1, 2, 3
        ON CONFLICT (day, queue, tally) DO UPDATE SET n = y.n + excluded.n
    )
    SELECT array_agg(DISTINCT s.queue) INTO moving FROM sums s WHERE s.state IN ('pending', 'active');
    IF moving IS NOT NULL OR low > counts_from + 1000 THEN
        UPDATE meta m SET value = low::text WHERE m.name = 'counts_from' AND m.value <> low::text;
    END IF;
    PERFORM keep_lanes(t, low, high, moving);
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
        CROSS JOIN LATERAL (SELECT x.seq FROM definition x WHERE x.id = u.id OFFSET 0) d ORDER BY d.seq) u
    WHERE k.seq = ANY (ARRAY[u.seq]) AND k.timer = u.held;
END $$;
