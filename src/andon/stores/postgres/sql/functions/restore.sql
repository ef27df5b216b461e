-- Moving in: records as another store held them, one after the other.
-- Moves, satisfied dependencies and edges name the record they belong to by its place.
CREATE FUNCTION restore_tasks(
    p_told bigint, p_me text,
    p_ids text[], p_definitions bytea[], p_partitions integer[], p_queues integer[],
    p_states text[], p_revisions bigint[], p_created bigint[], p_timers bigint[],
    p_keys text[], p_groups text[], p_dead boolean[], p_statuses bytea[],
    p_lanes integer[], p_levels integer[], p_ords bigint[], p_dead_at bigint[],
    p_first_limits bigint[], p_run_nos integer[], p_frees text[], p_remaining bigint[],
    p_uniques text[], p_untils bigint[], p_heirs_of text[], p_spares bigint[], p_lists text[],
    p_asked boolean[], p_fences bigint[], p_runs text[], p_workers text[], p_claimed bigint[], p_leases bigint[],
    p_heartbeats bigint[], p_progress integer[], p_messages text[], p_results bytea[],
    p_move_of integer[], p_move_at bigint[], p_moves bytea[], p_move_tallies text[],
    p_satisfied_of integer[], p_satisfied text[],
    p_edge_of integer[], p_edge_child text[], p_edge_loads boolean[], p_edge_any boolean[], p_edge_settled boolean[],
    OUT told bigint, OUT pos bigint, OUT wanted text[], OUT promoted integer[], OUT stored boolean[]
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint; r record; m record; p_seq bigint; newest bigint; surplus bigint; place bigint;
BEGIN
    PERFORM hold_keys(p_queues, p_keys);
    t := write_time(p_told);
    told := t;
    promoted := '{}';
    stored := array_fill(false, ARRAY[cardinality(p_ids)]);
    FOR r IN SELECT * FROM unnest(
            p_ids, p_definitions, p_partitions, p_queues, p_states, p_revisions, p_created, p_timers,
            p_keys, p_groups, p_dead, p_statuses, p_lanes, p_levels, p_ords, p_dead_at, p_first_limits, p_run_nos,
            p_frees, p_remaining, p_uniques, p_untils, p_heirs_of, p_spares, p_lists, p_asked, p_fences, p_runs, p_workers, p_claimed, p_leases,
            p_heartbeats, p_progress, p_messages, p_results)
        WITH ORDINALITY u (
            id, definition, partition, queue, state, revision, created, timer,
            key, grp, dead, status, lane, level, ord, dead_at, first_limit, run_no,
            frees, remaining, takes, takes_until, heir_of, spare, lists, asked, fence, run, worker, claimed_at, lease_until,
            heartbeat_at, progress, message, result, i)
        LEFT JOIN LATERAL (SELECT c.per_key FROM queue c WHERE c.id = u.queue) c ON true ORDER BY u.i
    LOOP
        CONTINUE WHEN EXISTS (SELECT FROM stub s WHERE s.id = r.id AND s.at > t - {{submit_window_ms}});
        p_seq := nextval('task_seq');
        INSERT INTO definition (seq, id, body) VALUES (p_seq, r.id, r.definition) ON CONFLICT (id) DO NOTHING;
        CONTINUE WHEN NOT FOUND;
        stored[r.i] := true;
        newest := NULL;
        FOR m IN SELECT u.* FROM unnest(p_move_of, p_move_at, p_moves, p_move_tallies)
            WITH ORDINALITY u (of, at, body, tally, i)
            WHERE u.of = r.i ORDER BY u.i LOOP
            pos := nextval('event_pos');
            place := places(1);
            INSERT INTO event (place, pos, seq, prev, at, body) VALUES (place, pos, p_seq, newest, m.at, m.body);
            newest := place;
            IF m.tally IS NOT NULL THEN
                INSERT INTO delta (queue, n, day, tally) VALUES (r.queue, 1, m.at / {{day_ms}}, m.tally);
            END IF;
        END LOOP;
        INSERT INTO task (seq, partition, queue, revision, created, timer, fence, last, claimed_at, lease_until,
            heartbeat_at, progress, dead, asked, state, key, "group", run, worker, message, body,
            result)
        VALUES (p_seq, r.partition, r.queue, r.revision, r.created, timer_from(t, r.timer), r.fence, newest, r.claimed_at,
            r.lease_until, r.heartbeat_at, r.progress, r.dead, r.asked, r.state, r.key, r.grp, r.run, r.worker,
            r.message, r.status, r.result);
        IF r.takes IS NOT NULL AND (r.takes_until IS NULL OR r.takes_until > t) THEN
            PERFORM take_unique(r.takes, r.id, r.takes_until, t, r.heir_of);  -- held by nobody else, it is ours
        END IF;
        INSERT INTO delta (queue, n, state) VALUES (r.queue, 1, r.state);
        IF r.dead THEN
            INSERT INTO delta (queue, n, state) VALUES (r.queue, 1, '+dead');
        END IF;
        IF r.lists IS NOT NULL THEN
            INSERT INTO listed (list, seq) SELECT u, p_seq FROM jsonb_array_elements_text(r.lists::jsonb) u;
        END IF;
        IF r.lane IS NOT NULL AND r.key IS NOT NULL THEN
            promoted := promoted || place_keyed(false, ARRAY[r.queue], ARRAY[r.key], ARRAY[r.lane], ARRAY[r.level],
                ARRAY[r.ord], ARRAY[p_seq], ARRAY[r.dead_at], ARRAY[r.first_limit],
                ARRAY[r.run_no], ARRAY[r.frees], NULL);
        ELSIF r.lane IS NOT NULL THEN
            INSERT INTO ready (lane, ord, seq, dead_at, first_limit, run_no, frees)
            VALUES (r.lane, r.ord, p_seq, r.dead_at, r.first_limit, r.run_no, r.frees);
        ELSIF r.state = 'active' AND r.key IS NOT NULL AND r.per_key IS NOT NULL THEN
            PERFORM admit(r.queue, r.key, 1);
            surplus := (SELECT a.n - r.per_key FROM admitted a WHERE a.queue = r.queue AND a.key = r.key);
            PERFORM park_surplus(r.queue, r.key, surplus);
        END IF;
        IF r.state = 'blocked' THEN
            WITH counted AS (
                INSERT INTO satisfied (child, parent) SELECT DISTINCT r.id, u.parent
                FROM unnest(p_satisfied_of, p_satisfied) u (of, parent) WHERE u.of = r.i
                ON CONFLICT DO NOTHING RETURNING 1)
            INSERT INTO fan_in (child, remaining, spare)
            SELECT r.id, coalesce(r.remaining, 0) - count(*), r.spare FROM counted;
        END IF;
        INSERT INTO edge AS e (parent, child, loads, any_end, settled)
        SELECT r.id, u.child, u.loads, u.any_end, u.settled
        FROM unnest(p_edge_of, p_edge_child, p_edge_loads, p_edge_any, p_edge_settled)
            u (of, child, loads, any_end, settled) WHERE u.of = r.i
        ON CONFLICT (parent, child) DO UPDATE SET loads = excluded.loads, any_end = excluded.any_end,
            settled = excluded.settled;
        IF r.state NOT IN ({{live_states}})
            AND EXISTS (SELECT FROM edge e WHERE e.parent = r.id AND NOT e.settled) THEN
            INSERT INTO unsettled (parent) VALUES (r.id) ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
    PERFORM lower_marks(p_lanes, p_ords);
    wanted := sleepers(p_me);
END $$;

-- A run came in from elsewhere: what is ready of its key above the limit waits for room.
CREATE FUNCTION park_surplus(q integer, k text, surplus bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE r record;
BEGIN
    FOR r IN SELECT e.*, l.level FROM lane l JOIN ready e ON e.lane = l.id AND e.key = k
        WHERE l.queue = q
        ORDER BY l.level DESC, e.ord DESC, e.seq DESC LIMIT greatest(surplus, 0) LOOP
        PERFORM park(q, k, r.level, r.lane, r.ord, r.seq);
    END LOOP;
END $$;
