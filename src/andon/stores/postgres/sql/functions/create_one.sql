-- Creating one plain record: nothing unique, no concurrency key, no dependencies, no dead
-- letter. Most submits are that, awaited one after another, and `create_tasks` costs such a call
-- twice as much of the server's time, of arrays and of one large statement set up for one row.
--
-- created: false if it is not as plain as that here (a known id, a stub, a queue with a bound, a
-- lane whose mark must go back); then nothing was written, and `create_tasks` is to be asked.
-- Names are qualified and the one setting is what keeps look-ups on their indexes.
--
-- It returns a row with the columns told, pos, wanted and created. The columns are not declared as OUT
-- parameters: the server would build the type of the row from all parameters in each call. And the row has
-- no named type: the driver would look that type up in each connection.
CREATE FUNCTION create_one(
    p_told bigint, p_me text, p_id text, p_definition bytea, p_partition integer, p_queue integer,
    p_state text, p_revision bigint, p_created bigint, p_timer bigint, p_group text, p_status bytea, p_event bytea,
    p_lane integer, p_ord bigint, p_dead_at bigint, p_first_limit bigint, p_run_no integer
) RETURNS record LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    number bigint := nextval('{schema}.task_seq'); told bigint; place bigint; pos bigint; odd boolean;
    watched boolean; wanted text[];
BEGIN
    -- (Each of these lines costs time, so there are as few as can be.)
    -- The transaction has its number before it looks at the clock, as in `write_time`, which would ask for it
    -- twice.
    place := pg_current_xact_id()::text::bigint << 20;
    told := {schema}.store_time(p_told);
    INSERT INTO {schema}.definition (seq, id, body) VALUES (number, p_id, p_definition) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        RETURN (told, pos, wanted, false);
    END IF;
    -- After the definition: who deletes a task of this id has gone, and its stub is seen. And after
    -- the place in the log was taken: who leaves a mark as a sleeper either is seen here or sees it.
    pos := nextval('{schema}.event_pos');
    SELECT EXISTS (SELECT FROM {schema}.stub s WHERE s.id = p_id AND s.at > told - {{submit_window_ms}})
            OR EXISTS (SELECT FROM {schema}.queue c WHERE c.id = p_queue AND c.max_size IS NOT NULL)
            OR EXISTS (SELECT FROM {schema}.lane l WHERE l.id = p_lane AND (l.mark > p_ord OR l.quiet > 0)),
        EXISTS (SELECT FROM {schema}.sleeper s WHERE s.instance <> p_me)
    INTO odd, watched;
    IF odd THEN
        DELETE FROM {schema}.definition d WHERE d.seq = number;
        RETURN (told, pos, wanted, false);
    END IF;
    INSERT INTO {schema}.event (place, pos, seq, at, body) VALUES (place, pos, number, told, p_event);
    INSERT INTO {schema}.task ({{new_columns}}, {{begun_columns}})
    SELECT {{new_values}}, {{begun_values}} FROM (
        SELECT number AS seq, p_partition AS partition, p_queue AS queue, p_created AS created, NULL::text AS key,
            p_group AS "group", false AS dead, p_status AS status, p_state AS state, p_revision AS revision,
            p_timer AS timer, place AS place, told AS t
    ) u;
    IF p_lane IS NOT NULL THEN
        INSERT INTO {schema}.ready (lane, ord, seq, dead_at, first_limit, run_no)
        VALUES (p_lane, p_ord, number, p_dead_at, p_first_limit, p_run_no);
    END IF;
    -- (By itself the table would ask for the number of the transaction once more.)
    INSERT INTO {schema}.delta (xid, queue, n, state, day, tally)
    VALUES (place >> 20, p_queue, 1, p_state, p_created / {{day_ms}}, 'submitted');
    IF watched THEN
        wanted := ARRAY(SELECT DISTINCT unnest(s.kinds) FROM {schema}.sleeper s WHERE s.instance <> p_me);
    END IF;
    RETURN (told, pos, wanted, true);
END $$;
