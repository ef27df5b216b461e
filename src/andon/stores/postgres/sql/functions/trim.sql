-- Move the start of the event log on, and drop what nothing needs any more; how many passed. An
-- event whose record lives stays for the record's history; only the log's start passes it.
CREATE FUNCTION trim_log(
    p_told bigint, p_limit integer, p_most bigint, p_kept bigint, p_first_day integer
) RETURNS bigint
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
        DELETE FROM event e USING unnest(dropped, tasks) u (place, seq)
        WHERE e.place = ANY (ARRAY[u.place]) AND e.seq = u.seq;
        UPDATE meta SET value = start::text WHERE name = 'log_start';
    END IF;
    DELETE FROM stub s WHERE s.id = ANY (ARRAY(
        SELECT x.id FROM stub x WHERE x.at > 0 AND x.at < t - {{submit_window_ms}} LIMIT p_limit));
    GET DIAGNOSTICS stubs = ROW_COUNT;
    DELETE FROM daily d WHERE (d.day, d.queue, d.tally) IN
        (SELECT x.day, x.queue, x.tally FROM daily x WHERE x.day < p_first_day ORDER BY x.day LIMIT p_limit);
    DELETE FROM claim c WHERE c.token = ANY (ARRAY(
        SELECT x.token FROM claim x WHERE x.at < t - {{claim_kept_ms}} LIMIT 30000));
    DELETE FROM worker w WHERE w.seen_at < t - {{worker_seen_ms}};
    PERFORM forget_codes(t);
    RETURN n + stubs;
END $$;
