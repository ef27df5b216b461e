-- Creating one plain record and waking who sleeps for it, in one call: the record is
-- committed first, and the notification, which waits for no flush, in a transaction of its own.
-- Inside the first it would make commits wait for each other; sent by the client, it would take another
-- round trip before a sleeping worker hears of its task.
--
-- If a claim stands for it, it is handed over instead, by the same notification.
--
-- It cannot run within a transaction of the caller's, since it commits.
CREATE PROCEDURE create_and_tell(
    p_told bigint, p_me text, p_id text, p_definition bytea, p_partition integer, p_queue integer,
    p_state text, p_revision bigint, p_created bigint, p_timer bigint, p_group text, p_status bytea, p_event bytea,
    p_lane integer, p_ord bigint, p_dead_at bigint, p_first_limit bigint, p_run_no integer,
    p_channel text, p_topics text[],
    INOUT told bigint, INOUT pos bigint, INOUT wanted text[], INOUT created boolean, INOUT handed boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE note text; run text; ear bigint;
BEGIN
    IF p_lane IS NOT NULL THEN
        SELECT o.told, o.pos, o.wanted, o.created, o.run, o.ear INTO told, pos, wanted, created, run, ear
        FROM {schema}.create_handed(p_told, p_me, p_id, p_definition, p_partition, p_queue, p_lane, p_revision,
            p_created, p_group, p_status, p_event, p_dead_at, p_first_limit, p_run_no) o;
    END IF;
    handed := run IS NOT NULL;
    IF NOT handed THEN
        SELECT o.told, o.pos, o.wanted, o.created INTO told, pos, wanted, created
        FROM {schema}.create_one(p_told, p_me, p_id, p_definition, p_partition, p_queue, p_state, p_revision,
            p_created, p_timer, p_group, p_status, p_event, p_lane, p_ord, p_dead_at, p_first_limit, p_run_no)
            o (told bigint, pos bigint, wanted text[], created boolean);
    END IF;
    IF created AND (handed OR wanted IS NOT NULL) THEN
        -- It is not ready for anybody else.
        SELECT string_agg(u, E'\n') INTO note FROM unnest(p_topics) u
        WHERE split_part(u, ':', 1) = ANY (wanted) AND NOT (handed AND starts_with(u, 'ready:'));
        IF handed OR note IS NOT NULL THEN
            COMMIT;
            IF handed THEN
                PERFORM pg_notify('andon_' || ear, run);
            END IF;
            IF note IS NOT NULL THEN
                PERFORM pg_notify(p_channel, p_me || E'\n' || note);
            END IF;
        END IF;
    END IF;
END $$;
