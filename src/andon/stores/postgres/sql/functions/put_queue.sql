-- Replace a queue's configuration if it still is `p_expect` (NULL: none was set); whether it was. A new
-- limit per key parks what it leaves no room for, and lets through what it has room for; nothing else
-- is looked at.
CREATE FUNCTION put_queue(
    q integer, p_expect bytea, p_body bytea, p_paused boolean, p_max_concurrent integer, p_per_key integer,
    p_max_size integer, p_rate double precision, p_burst double precision
) RETURNS boolean LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE was queue; r record; k text;
BEGIN
    PERFORM lock_name('limits ' || q);
    PERFORM lock_name('claim ' || q);
    SELECT c.* INTO was FROM queue c WHERE c.id = q;
    IF was.body IS DISTINCT FROM p_expect THEN
        RETURN false;
    END IF;
    INSERT INTO queue AS c VALUES (q, p_body, p_paused, p_max_concurrent, p_per_key, p_max_size, p_rate, p_burst)
    ON CONFLICT (id) DO UPDATE SET body = excluded.body, paused = excluded.paused,
        max_concurrent = excluded.max_concurrent, per_key = excluded.per_key, max_size = excluded.max_size,
        rate = excluded.rate, burst = excluded.burst;
    IF p_per_key IS NOT DISTINCT FROM was.per_key THEN
        RETURN true;
    END IF;
    IF p_per_key IS NULL THEN
        DELETE FROM admitted a WHERE a.queue = q;
    ELSIF was.per_key IS NULL THEN
        -- All that the queue has in hand is read, once: to find those with a key by an index would cost
        -- every record of every queue.
        -- Claims go on meanwhile: they do not change how many are ready or active, and what one of
        -- them took is not found any more when it is to be parked.
        INSERT INTO admitted (queue, key, n)
        SELECT q, x.key, count(*) FROM (
            SELECT e.key FROM lane l JOIN ready e ON e.lane = l.id WHERE l.queue = q AND e.key IS NOT NULL
            UNION ALL
            SELECT t.key FROM task t WHERE t.queue = q AND t.key IS NOT NULL AND t.state = 'active'
        ) x GROUP BY x.key;
    END IF;
    IF p_per_key < was.per_key OR was.per_key IS NULL THEN
        FOR r IN
            SELECT x.* FROM (
                SELECT e.*, l.level, a.n - p_per_key AS surplus,
                    row_number() OVER (PARTITION BY e.key ORDER BY l.level DESC, e.ord DESC, e.seq DESC) AS nth
                FROM lane l JOIN ready e ON e.lane = l.id JOIN admitted a ON a.queue = q AND a.key = e.key
                WHERE l.queue = q AND e.key IS NOT NULL AND a.n > p_per_key
            ) x WHERE x.nth <= x.surplus
        LOOP
            PERFORM park(q, r.key, r.level, r.lane, r.ord, r.seq);
        END LOOP;
    END IF;
    IF p_per_key IS NULL OR p_per_key > was.per_key THEN
        LOOP
            k := (SELECT p.key FROM parked p WHERE p.queue = q AND (k IS NULL OR p.key > k)
                ORDER BY p.queue, p.key LIMIT 1);
            EXIT WHEN k IS NULL;
            PERFORM promote(q, k);
        END LOOP;
    END IF;
    RETURN true;
END $$;

-- Take an entry out of its lane until its key has room; nothing, if a claim has taken it.
CREATE FUNCTION park(q integer, k text, p_level integer, p_lane integer, p_ord bigint, p_seq bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    WITH gone AS (
        DELETE FROM ready e WHERE e.lane = p_lane AND e.ord = p_ord AND e.seq = p_seq RETURNING e.*
    )
    INSERT INTO parked (queue, key, level, ord, seq, lane, dead_at, first_limit, run_no, frees)
    SELECT q, k, p_level, g.ord, g.seq, g.lane, g.dead_at, g.first_limit, g.run_no, g.frees FROM gone g;
    IF FOUND THEN
        INSERT INTO delta (queue, n, state) VALUES (q, 1, '+parked');
        PERFORM admit(q, k, -1);
    END IF;
END $$;
