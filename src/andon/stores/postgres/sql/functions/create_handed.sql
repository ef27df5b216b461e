-- Creating one plain pending record that is handed over to a claim that stands (`standing`):
-- it is active at once, with what `create_one` and `claim_tasks` would have left together, and never
-- stands in its lane.
--
-- created: NULL if no waiting claim there would get this task and no other, or the task is not plain;
-- then it is left to `create_one`, and claims that cannot be served no longer wait.
--
-- `run` is told on the channel of `ear`: token, number of the claim's sending, place in it, time,
-- fence, key, how many bytes the definition has, and definition and status in base64.
CREATE FUNCTION create_handed(
    p_told bigint, p_me text, p_id text, p_definition bytea, p_partition integer, p_queue integer, p_lane integer,
    p_revision bigint, p_created bigint, p_group text, p_status bytea, p_event bytea, p_dead_at bigint,
    p_first_limit bigint, p_run_no integer,
    OUT told bigint, OUT pos bigint, OUT wanted text[], OUT created boolean, OUT run text, OUT ear bigint
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE s {schema}.standing; number bigint; place bigint; name text; odd boolean;
BEGIN
    SELECT x.* INTO s FROM {schema}.standing x WHERE x.queue = p_queue AND x.until > 0;
    -- Who repeats the claim has what it stands for to himself, or waits until this is committed. A
    -- notification takes less than 8,000 bytes, and base64 makes four of three.
    IF NOT FOUND OR length(p_definition) + length(p_status) > 5500 OR NOT pg_try_advisory_xact_lock(s.held) THEN
        RETURN;
    END IF;
    told := {schema}.write_time(p_told);
    place := pg_current_xact_id()::text::bigint << 20;
    UPDATE {schema}.standing x SET until = 0 WHERE x.queue = p_queue AND x.token = s.token AND x.until >= told
    RETURNING x.* INTO s;
    -- A token that has got something gets nothing more. A listening session that has ended no longer
    -- holds its lock.
    IF NOT FOUND OR p_dead_at <= told OR pg_try_advisory_xact_lock_shared(s.ear) THEN
        RETURN;
    END IF;
    SELECT EXISTS (SELECT FROM {schema}.claim c WHERE c.token = s.token)
        OR EXISTS (SELECT FROM {schema}.queue c WHERE c.id = p_queue AND (c.paused OR c.max_concurrent IS NOT NULL
            OR c.rate IS NOT NULL OR c.max_size IS NOT NULL))
        OR s.code <> 0 AND NOT EXISTS (SELECT FROM {schema}.lane l JOIN {schema}.claimable m ON m.code = s.code
            AND m.kind = l.kind WHERE l.id = p_lane AND m.may)
    INTO odd;
    IF odd OR {schema}.waits_for(s.queues, p_partition, s.code) THEN
        RETURN;
    END IF;
    number := nextval('{schema}.task_seq');
    INSERT INTO {schema}.definition (seq, id, body) VALUES (number, p_id, p_definition) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Both after what they must come after: see `create_one`.
    pos := nextval('{schema}.event_pos');
    SELECT EXISTS (SELECT FROM {schema}.stub s WHERE s.id = p_id AND s.at > told - {{submit_window_ms}}),
        ARRAY(SELECT DISTINCT unnest(s.kinds) FROM {schema}.sleeper s WHERE s.instance <> p_me)
    INTO odd, wanted;
    IF odd THEN
        DELETE FROM {schema}.definition d WHERE d.seq = number;
        RETURN;
    END IF;
    name := s.token || '-0';
    INSERT INTO {schema}.event (place, pos, seq, at, body) VALUES (place, pos, number, told, p_event);
    pos := nextval('{schema}.event_pos');
    INSERT INTO {schema}.event (place, pos, seq, prev, at, revision, run_no, task, worker, run)
    VALUES (place + 1, pos, number, place, told, p_revision + 1, p_run_no, p_id, s.worker, name);
    INSERT INTO {schema}.task ({{new_columns}}, {{stamp_columns}})
    SELECT {{new_values}}, {{stamp_values}} FROM (
        SELECT number AS seq, p_partition AS partition, p_queue AS queue, p_created AS created, NULL::text AS key,
            p_group AS "group", false AS dead, p_status AS status
    ) u, (
        SELECT p_revision AS revision, 0 AS fence, place AS last
    ) k, (
        SELECT told AS t, s.lease AS lease, p_first_limit AS first_limit, p_dead_at AS dead_at, place + 1 AS place,
            name AS run, s.worker AS worker, s.token AS token
    ) c;
    INSERT INTO {schema}.claim (token, at, seqs) VALUES (s.token, told, ARRAY[number]);
    INSERT INTO {schema}.delta (queue, n, state, day, tally)
    VALUES (p_queue, 1, 'active', p_created / {{day_ms}}, 'submitted');
    ear := s.ear;
    run := concat_ws(E'\n', s.token, s.number, 0, told, greatest(1, told), number, length(p_definition),
        encode(p_definition || p_status, 'base64'));
    created := true;
END $$;

-- Whether something is ready in these queues that this code may claim, or it is not known to be neither.
CREATE FUNCTION waits_for(p_queues integer[], p_partition integer, p_code integer) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE looked integer; found boolean;
BEGIN
    SELECT count(*), bool_or(x.any) INTO looked, found FROM (
        SELECT EXISTS (SELECT FROM {schema}.ready e WHERE e.lane = l.id AND e.ord >= l.mark) AS any
        FROM {schema}.lane l LEFT JOIN {schema}.claimable m ON m.code = p_code AND m.kind = l.kind
        WHERE l.queue = ANY (p_queues) AND l.partition = p_partition AND l.quiet < 2 AND m.may IS DISTINCT FROM false
        LIMIT 65
    ) x;
    RETURN looked > 64 OR coalesce(found, false);
END $$;

-- Let a claim that found nothing stand in its queues, for so many ms, where no other does.
CREATE FUNCTION stand(
    p_queues integer[], p_for bigint, p_number bigint, p_lease bigint, p_ear bigint, p_token text, p_worker text, p_code integer,
    t bigint
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO standing AS s (queue, until, number, lease, held, ear, token, worker, queues, code)
    SELECT DISTINCT u, t + p_for, p_number, p_lease, name_key('token ' || p_token), p_ear, p_token, p_worker, p_queues,
        p_code
    FROM unnest(p_queues) u ORDER BY 1
    ON CONFLICT (queue) DO UPDATE SET until = excluded.until, number = excluded.number, lease = excluded.lease,
        held = excluded.held, ear = excluded.ear, token = excluded.token, worker = excluded.worker,
        queues = excluded.queues, code = excluded.code
    WHERE s.until < t OR s.worker = excluded.worker;
END $$;

-- A worker's claim stands no more, wherever it may.
CREATE FUNCTION take_back(p_queues integer[], p_worker text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    UPDATE standing s SET until = 0 WHERE s.queue = ANY (p_queues) AND s.worker = p_worker AND s.until > 0;
END $$;
