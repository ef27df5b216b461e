-- The store's clock.

-- The server's, ms UTC.
CREATE FUNCTION server_clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- By how much the store's time is ahead of it: so much the server's clock has been set back since the
-- store was made. A function that is a constant, because every statement asks for it: to look it up in
-- a table would cost a lone create a twentieth of its time. (Not IMMUTABLE: plans would keep its value.)
CREATE FUNCTION clock_offset() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT 0::bigint';

-- The store's clock, ms UTC: never before `told`, the newest time that the caller was told. A
-- negative `told` is the time itself (tests in virtual time).
CREATE FUNCTION store_time(told bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN told < 0 THEN -told ELSE greatest(told, {schema}.server_clock() + {schema}.clock_offset()) END
$$;

-- The same for writers: the transaction has its number before it looks at the clock. And a
-- timer as it is written, which is never before that. So whoever sees that all transactions before
-- its own have ended knows that no timer will be set before its own time (see `timekept`).
CREATE FUNCTION write_time(told bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN pg_current_xact_id() IS NOT NULL THEN {schema}.store_time(told) END
$$;
CREATE FUNCTION timer_from(t bigint, timer bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN timer < t THEN t ELSE timer END
$$;

-- Let time go on where the store's clock is behind what somebody was told by it, or what a timekeeper
-- noted: the server's clock has been set back then. Small steps back are waited for.
CREATE FUNCTION keep_clock(known bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE kept text; behind bigint;
BEGIN
    IF known IS NULL OR known - store_time(0) <= 1000 THEN
        RETURN;
    END IF;
    kept := (SELECT m.value FROM meta m WHERE m.name = 'clock_offset');
    behind := known - server_clock() - kept::bigint;
    UPDATE meta m SET value = (kept::bigint + behind)::text
    WHERE m.name = 'clock_offset' AND m.value = kept AND behind > 0;
    IF FOUND THEN  -- else somebody else saw it too
        PERFORM put_clock_offset();
    END IF;
END $$;

-- Make `clock_offset` what is stored. Only the owner of a function may replace it.
CREATE FUNCTION put_clock_offset() RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION {schema}.clock_offset() RETURNS bigint LANGUAGE sql STABLE AS %L',
        format('SELECT %s::bigint', (SELECT m.value::bigint FROM meta m WHERE m.name = 'clock_offset')));
END $$;
