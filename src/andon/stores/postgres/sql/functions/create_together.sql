-- Creating records that depend on one another: all of them or none, which `create_tasks` decides. It
-- has the other arguments of that function.
--
-- created: whether all were; if one was refused, or its id is taken, nothing is left of any of them.
CREATE FUNCTION create_together(
    p_told bigint, p_me text, p_tasks new_task[], p_queues integer[], p_key_queues integer[], p_keys text[],
    p_lanes integer[], p_lows bigint[], p_uniques boolean, p_more boolean,
    OUT told bigint, OUT pos bigint, OUT wanted text[], OUT promoted integer[], OUT created boolean
) LANGUAGE plpgsql VOLATILE {settings} AS $$
DECLARE outcomes text[];
BEGIN
    told := write_time(p_told);
    SELECT c.pos, c.wanted, c.promoted, c.outcomes INTO pos, wanted, promoted, outcomes
    FROM create_tasks(p_told, p_me, false, p_tasks, p_queues, p_key_queues, p_keys, p_lanes, p_lows, p_uniques, p_more) c;
    created := true;
    IF EXISTS (SELECT FROM unnest(outcomes) o WHERE o <> 'n') THEN
        RAISE EXCEPTION USING ERRCODE = 'AN001', MESSAGE = 'one of the records cannot be created';
    END IF;
EXCEPTION WHEN SQLSTATE 'AN001' THEN
    pos := NULL; wanted := NULL; promoted := NULL;
    created := false;
END $$;
