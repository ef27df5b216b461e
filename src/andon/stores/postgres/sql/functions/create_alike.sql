-- Creating plain pending records that are alike, as a bulk submit does: of one queue, type,
-- priority and partition, without a timer, and nothing unique, no concurrency key, no dependencies.
-- What they have in common comes once, the rest as an array for each column; `create_tasks` takes
-- some twenty columns for each record.
--
-- Ids stand in one text with spaces between them, definitions one after another in `p_definitions`,
-- each from its place in `p_starts` (the first is 1) to the next one's: both sides make and take an
-- array of them piece by piece.
--
-- `p_statuses`, `p_events`, `p_submits` and `p_ords` are empty when all have the status `p_status`:
-- they were created at `p_created`, stand at `p_low` in their lane, and their events are the same but
-- for the id, which stands between `p_head` and `p_tail`. `p_lists` are the lists by name that each enters.
--
-- created: false if they are not as plain as that here (a known id, a stub, a queue with a bound);
-- then nothing is left of them, and `create_tasks` is to be asked.
CREATE FUNCTION create_alike(
    p_told bigint, p_me text, p_partition integer, p_queue integer, p_group text, p_lane integer,
    p_first_limit bigint, p_low bigint, p_created bigint, p_status bytea, p_head bytea, p_tail bytea, p_ids text,
    p_definitions bytea, p_starts integer[], p_submits bigint[], p_ords bigint[], p_statuses bytea[], p_events bytea[],
    p_lists text[],
    OUT told bigint, OUT pos bigint, OUT wanted text[], OUT created boolean
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE
    t bigint := write_time(p_told); first bigint := place_of(0); size integer := cardinality(p_starts);
    ids text[] := string_to_array(p_ids, ' '); number bigint := nextval('task_seq'); odd boolean; lower boolean;
BEGIN
    told := t;
    created := false;
    -- One number makes room for so many (see `task_seq`).
    IF size > 1024 OR size <> cardinality(ids) THEN
        RETURN;
    END IF;
    pos := nextval('event_pos');
    -- That all ids are new is the rule, so it is found out by failing: asking for each before it is
    -- written costs as much as an index.
    BEGIN
        INSERT INTO definition (seq, id, body)
        SELECT number + u.i - 1, u.id,
            substring(p_definitions FROM u.start FOR coalesce(u.next, length(p_definitions) + 1) - u.start)
        FROM unnest(ids, p_starts, p_starts[2:]) WITH ORDINALITY u (id, start, next, i) ORDER BY u.id;
    EXCEPTION WHEN unique_violation THEN
        RETURN;
    END;
    -- After the definitions and the first place in the log, as in `create_one`.
    SELECT EXISTS (SELECT FROM queue c WHERE c.id = p_queue AND c.max_size IS NOT NULL)
            OR EXISTS (SELECT FROM stub s WHERE s.at > 0 AND s.at > t - {{submit_window_ms}})
            AND EXISTS (SELECT FROM stub s WHERE s.id = ANY (ids) AND s.at > t - {{submit_window_ms}}),
        EXISTS (SELECT FROM lane l WHERE l.id = p_lane AND (l.mark > p_low OR l.quiet > 0)),
        (SELECT array_agg(DISTINCT k) FROM sleeper s, unnest(s.kinds) k WHERE s.instance <> p_me)
    INTO odd, lower, wanted;
    IF odd THEN
        DELETE FROM definition d WHERE d.seq >= number AND d.seq < number + size;
        RETURN;
    END IF;
    INSERT INTO event (place, pos, seq, at, body)
    SELECT first + u.i - 1, CASE WHEN u.i = 1 THEN pos ELSE nextval('event_pos') END, number + u.i - 1, t,
        coalesce(u.event, p_head || convert_to(u.id, 'UTF8') || p_tail)
    FROM unnest(ids, p_events) WITH ORDINALITY u (id, event, i);
    pos := currval('event_pos');
    INSERT INTO task ({{new_columns}}, {{begun_columns}})
    SELECT {{new_values}}, {{begun_values}} FROM (
        SELECT number + x.i - 1 AS seq, p_partition AS partition, p_queue AS queue,
            coalesce(x.created, p_created) AS created, NULL::text AS key, p_group AS "group", false AS dead,
            coalesce(x.status, p_status) AS status, 'pending' AS state, 1 AS revision, NULL::bigint AS timer,
            first + x.i - 1 AS place
        FROM unnest(p_starts, p_submits, p_statuses) WITH ORDINALITY x (start, created, status, i)
    ) u;
    INSERT INTO ready (lane, ord, seq, first_limit, run_no)
    SELECT p_lane, coalesce(u.ord, p_low), number + u.i - 1, p_first_limit, 0
    FROM unnest(p_starts, p_ords) WITH ORDINALITY u (start, ord, i);
    IF cardinality(p_lists) > 0 THEN
        INSERT INTO listed (list, seq)
        SELECT l, number + i - 1 FROM unnest(p_lists) l CROSS JOIN generate_series(1, size) i;
    END IF;
    IF p_created IS NOT NULL THEN
        INSERT INTO delta (queue, n, state, day, tally)
        VALUES (p_queue, size, 'pending', p_created / {{day_ms}}, 'submitted');
    ELSE
        INSERT INTO delta (queue, n, state, day, tally)
        SELECT p_queue, count(*), 'pending', u / {{day_ms}}, 'submitted' FROM unnest(p_submits) u GROUP BY 4;
    END IF;
    IF lower THEN
        PERFORM lower_marks(ARRAY[p_lane], ARRAY[p_low]);
    END IF;
    created := true;
END $$;
