-- What the operations share. `{settings}` stands for what every function that is called
-- from outside runs under: its own schema before any other, and plans by index whatever the
-- statistics say (a plan that is kept must not have been made while the tables were empty). What
-- those call runs under it too and does not set it again: that costs as much as a small statement.

-- The n-th place in the event log of this transaction. A call that is the only one in its transaction
-- numbers its events from 0 on; beyond 2^16, and wherever a transaction may hold more than one call,
-- `places` gives the first of as many places as are needed.
CREATE FUNCTION place_of(n bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (pg_current_xact_id()::text::bigint << 20) + n
$$;
-- Events before this place are final: no transaction that still writes can have one there.
CREATE FUNCTION place_final() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20
$$;
CREATE FUNCTION places(many bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE taken bigint := coalesce(nullif(current_setting('andon.places', true), ''), '65536')::bigint;
BEGIN
    IF taken + many > 1048576 THEN
        RAISE EXCEPTION 'One transaction can hold at most 983040 events of tasks; commit before the next.'
            USING ERRCODE = 'program_limit_exceeded';
    END IF;
    PERFORM set_config('andon.places', (taken + many)::text, true);
    RETURN place_of(taken);
END $$;

-- Kinds of hints that sleeping processes wait for; NULL when there are none.
CREATE FUNCTION sleepers(me text) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM sleeper s WHERE s.instance <> me) THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT array_agg(DISTINCT k) FROM sleeper s, unnest(s.kinds) k WHERE s.instance <> me);
END $$;

-- Ids of queue and type names, new ones made. Run in a transaction of its own.
CREATE FUNCTION name_ids(names text[]) RETURNS TABLE (id integer, name text)
LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO name (name) SELECT DISTINCT u FROM unnest(names) u
    WHERE NOT EXISTS (SELECT FROM name n WHERE n.name = u) ORDER BY u ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT n.id, n.name FROM name n WHERE n.name = ANY (names);
END $$;

-- Held until the transaction ends. Two names that hash alike only wait for each other.
CREATE FUNCTION name_key(what text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(current_schema() || ' ' || what, 0)
$$;
CREATE FUNCTION lock_name(what text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock(name_key(what));
END $$;
CREATE FUNCTION share_name(what text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock_shared(name_key(what));
END $$;

-- Before anything is done to tasks with concurrency keys: hold the queues' configuration as it is,
-- and the keys of limited queues to oneself. Always in the same order, before any row.
CREATE FUNCTION hold_keys(queues integer[], keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE q integer; k text;
BEGIN
    FOR q IN SELECT DISTINCT u.q FROM unnest(queues, keys) u (q, k) WHERE u.k IS NOT NULL ORDER BY 1 LOOP
        PERFORM share_name('limits ' || q);
    END LOOP;
    FOR q, k IN SELECT DISTINCT u.q, u.k FROM unnest(queues, keys) u (q, k) JOIN queue c ON c.id = u.q
        WHERE u.k IS NOT NULL AND c.per_key IS NOT NULL ORDER BY 1, 2 LOOP
        PERFORM lock_name('key ' || q || ' ' || k);
    END LOOP;
END $$;

-- A count as it stands; exact for a caller that keeps others from raising it.
CREATE FUNCTION counted(q integer, s text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN (SELECT coalesce(sum(n), 0) FROM (
        SELECT n FROM counter WHERE queue = q AND state = s
        UNION ALL SELECT n FROM unfolded WHERE queue = q AND state = s) x);
END $$;

-- Admit parked tasks of a key while its limit has room; how many. The key is held by the caller.
CREATE FUNCTION promote(q integer, k text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE most bigint; n_moved bigint; lanes integer[]; ords bigint[];
BEGIN
    SELECT per_key INTO most FROM queue WHERE id = q;
    IF most IS NOT NULL THEN
        most := most - coalesce((SELECT n FROM admitted WHERE queue = q AND key = k), 0);
        IF most <= 0 THEN
            RETURN 0;
        END IF;
    END IF;
    WITH first AS MATERIALIZED (
        SELECT p.level, p.ord, p.seq FROM parked p WHERE p.queue = q AND p.key = k
        ORDER BY p.level, p.ord, p.seq LIMIT most
    ), gone AS (
        DELETE FROM parked p USING first f WHERE p.queue = q AND p.key = k AND p.level = ANY (ARRAY[f.level])
            AND p.ord = ANY (ARRAY[f.ord]) AND p.seq = ANY (ARRAY[f.seq])
        RETURNING p.lane, p.ord, p.seq, p.dead_at, p.first_limit, p.run_no, p.frees, p.key
    ), here AS (
        INSERT INTO ready (lane, ord, seq, dead_at, first_limit, run_no, frees, key)
        SELECT * FROM gone RETURNING lane, ord
    )
    SELECT count(*), array_agg(h.lane), array_agg(h.ord) INTO n_moved, lanes, ords FROM here h;
    IF n_moved > 0 THEN
        PERFORM lower_marks(lanes, ords);
        INSERT INTO delta (queue, n, state) VALUES (q, -n_moved, '+parked');
        IF most IS NOT NULL THEN
            PERFORM admit(q, k, n_moved);
        END IF;
    END IF;
    RETURN n_moved;
END $$;

CREATE FUNCTION admit(q integer, k text, change bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO admitted AS a (queue, key, n) VALUES (q, k, change)
    ON CONFLICT (queue, key) DO UPDATE SET n = a.n + change;
    DELETE FROM admitted WHERE queue = q AND key = k AND n <= 0;
END $$;

-- A task of the key is no longer ready or active; whether others were let through. If it `returns`
-- to pending in the same step, placing it promotes, so that it keeps its own place.
CREATE FUNCTION leave_key(q integer, k text, returns boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM queue WHERE id = q AND per_key IS NOT NULL) THEN
        RETURN false;
    END IF;
    PERFORM admit(q, k, -1);
    RETURN NOT returns AND promote(q, k) > 0;
END $$;

-- Reserve a unique key; NULL if it is ours now, else its holder's id. A reservation is a hint, its
-- holder's record the truth: one past its period, or whose holder is gone or set aside, is taken
-- over by compare and set. So is that of the task whose place this one takes (`p_heir_of`).
CREATE FUNCTION take_unique(p_key text, p_id text, p_until bigint, t bigint, p_heir_of text DEFAULT '') RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE held record;
BEGIN
    LOOP
        INSERT INTO unique_key (key, id, until) VALUES (p_key, p_id, p_until) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        SELECT u.id, u.until, k.state INTO held FROM unique_key u
        LEFT JOIN definition d ON d.id = ANY (ARRAY[u.id])
        LEFT JOIN task k ON k.seq = ANY (ARRAY[d.seq])
        WHERE u.key = p_key FOR UPDATE OF u;
        CONTINUE WHEN NOT FOUND;
        IF held.id <> p_id AND held.id <> p_heir_of AND held.state IS NOT NULL AND held.state <> 'unknown'
            AND (held.until IS NULL OR held.until > t) THEN
            RETURN held.id;
        END IF;
        UPDATE unique_key SET id = p_id, until = p_until WHERE key = p_key;
        RETURN NULL;
    END LOOP;
END $$;

-- Whether an unsettled edge, or a live dependent that loads the result, holds the record.
CREATE FUNCTION is_needed(p_parent text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN EXISTS (
        SELECT FROM edge e JOIN definition d ON d.id = ANY (ARRAY[e.child])
        JOIN task t ON t.seq = ANY (ARRAY[d.seq])
        WHERE e.parent = p_parent AND (NOT e.settled OR e.loads)
            AND t.state IN ({{live_states}}));
END $$;

-- Edges have changed: a fan-out may be finished, a deletion put off may be due again; whether one is.
CREATE FUNCTION let_go(p_parent text, t bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM unsettled WHERE parent = p_parent
        AND NOT EXISTS (SELECT FROM edge e WHERE e.parent = p_parent AND NOT e.settled);
    IF NOT EXISTS (SELECT FROM put_off WHERE parent = p_parent) OR is_needed(p_parent) THEN
        RETURN false;
    END IF;
    UPDATE task SET timer = t WHERE seq = (SELECT seq FROM definition WHERE id = p_parent);
    DELETE FROM put_off WHERE parent = p_parent;
    RETURN true;
END $$;
