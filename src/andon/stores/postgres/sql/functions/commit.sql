-- Committing: decided moves, each written if the record is still what it was decided on.
-- Rows come in the order of their keys and are locked in it, so that two batches never wait for
-- each other in a ring. Plain moves are written together, the others one by one after them.
--
-- kinds: a applied, d applied and the task has dependents, c conflict, g gone, k key held.

CREATE TYPE change AS ({{change_fields}});

-- Remove a record with everything that is its own, leaving a stub for the submit window. `p_place` is
-- that of the event which discards it at its end.
CREATE FUNCTION delete_record(
    p_seq bigint, p_id text, p_digest text, p_state text, p_writes text, p_run text, p_report text, p_last bigint,
    p_place bigint, t bigint
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE start bigint[]; freed boolean := false; parent text; cut bigint;
BEGIN
    -- Events that the log has trimmed lived on for the record's history; they go with it.
    cut := (SELECT value::bigint FROM meta WHERE name = 'log_start');
    IF cut > 0 THEN
        WITH RECURSIVE chain AS (
            SELECT e.place, e.prev FROM event e WHERE e.place = p_last AND e.seq = p_seq
            UNION ALL
            SELECT e.place, e.prev FROM chain c JOIN event e ON e.place = ANY (ARRAY[c.prev]) AND e.seq = p_seq
        )
        DELETE FROM event e USING chain c WHERE e.place = ANY (ARRAY[c.place]) AND e.seq = p_seq AND e.place <= cut;
    END IF;
    DELETE FROM task WHERE seq = p_seq;
    DELETE FROM definition WHERE seq = p_seq;
    FOR parent IN DELETE FROM edge e WHERE e.child = p_id AND e.child <> '' RETURNING e.parent LOOP
        freed := let_go(parent, t) OR freed;
    END LOOP;
    DELETE FROM edge e WHERE e.parent = p_id;
    DELETE FROM unsettled u WHERE u.parent = p_id;
    DELETE FROM put_off u WHERE u.parent = p_id;
    INSERT INTO stub AS s (id, digest, state, writes, run, report, place, at)
    VALUES (p_id, p_digest, p_state, p_writes, p_run, p_report, p_place, t)
    ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, state = excluded.state,
        writes = excluded.writes, run = excluded.run, report = excluded.report, place = excluded.place,
        at = excluded.at;
    RETURN freed;
END $$;

-- Take a record that does not decode out of every index, in one step (docs/rulings.md, R28).
CREATE FUNCTION set_aside(p_seq bigint, t bigint) RETURNS void
LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE k record; admitted boolean; p bigint;
BEGIN
    SELECT x.queue, x.key INTO k FROM task x WHERE x.seq = p_seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM hold_keys(ARRAY[k.queue], ARRAY[k.key]);
    SELECT x.*, d.id COLLATE "default" AS id INTO k FROM task x JOIN definition d ON d.seq = p_seq WHERE x.seq = p_seq FOR UPDATE OF x;
    IF NOT FOUND OR k.state = 'unknown' THEN
        RETURN;
    END IF;
    INSERT INTO delta (queue, n, state) VALUES (k.queue, -1, k.state), (k.queue, 1, 'unknown');
    IF k.dead THEN
        INSERT INTO delta (queue, n, state) VALUES (k.queue, -1, '+dead');
    END IF;
    admitted := k.state = 'active';
    IF k.state = 'pending' THEN
        DELETE FROM ready e USING lane l WHERE l.queue = k.queue AND e.lane = l.id AND e.seq = p_seq;
        admitted := FOUND;
        IF NOT admitted THEN
            DELETE FROM parked p WHERE p.queue = k.queue AND p.key = k.key AND p.seq = p_seq;
            INSERT INTO delta (queue, n, state) VALUES (k.queue, -1, '+parked');
        END IF;
    END IF;
    IF admitted AND k.key IS NOT NULL THEN
        PERFORM leave_key(k.queue, k.key, false);
    END IF;
    DELETE FROM fan_in WHERE child = k.id;
    DELETE FROM satisfied WHERE child = k.id;
    DELETE FROM listed l WHERE l.seq = p_seq;
    p := places(1);
    INSERT INTO event (place, pos, seq, prev, at, revision, task, source)
    VALUES (p, nextval('event_pos'), p_seq, k.last, t, k.revision + 1, k.id, k.state);
    UPDATE task SET state = 'unknown', revision = revision + 1, timer = NULL, dead = false, run = NULL,
        worker = NULL, last = p WHERE seq = p_seq;
END $$;

-- One change, every guard looked at. Its row is locked, its keys are held.
CREATE FUNCTION change_one(c change, t bigint, OUT kind text, OUT holder text, OUT woken integer[], OUT due boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE k record; was_ready boolean := false; p bigint; unsettled_edges boolean; ours text;
BEGIN
    woken := '{}';
    due := false;
    SELECT x.* INTO k FROM task x WHERE x.seq = c.seq;
    IF NOT FOUND OR k.created <> c.created AND NOT c.unknown THEN
        kind := CASE WHEN EXISTS (SELECT FROM stub s WHERE s.id = c.id AND s.at > t - {{submit_window_ms}}
            AND c.write_id <> '' AND c.write_id = ANY (string_to_array(s.writes, ' '))) THEN 'a' ELSE 'g' END;
        RETURN;
    END IF;
    IF c.unknown AND k.state <> 'unknown' THEN
        -- Whoever read it found that it does not decode, and no claim or timer has met it yet.
        PERFORM set_aside(c.seq, t);
        kind := 'c';
        RETURN;
    END IF;
    IF k.revision <> c.revision OR c.seen_lease IS NOT NULL AND k.lease_until IS DISTINCT FROM c.seen_lease THEN
        kind := 'c';
        RETURN;
    END IF;
    IF c.state IS NULL AND NOT c.force AND is_needed(c.id) THEN
        INSERT INTO put_off (parent) VALUES (c.id) ON CONFLICT DO NOTHING;
        kind := 'c';
        RETURN;
    END IF;
    IF c.takes IS NOT NULL AND (c.takes_until IS NULL OR c.takes_until > t) THEN
        holder := take_unique(c.takes, c.id, c.takes_until, t);
        IF holder IS NOT NULL THEN
            kind := 'k';
            RETURN;
        END IF;
    END IF;

    IF c.tally IS NOT NULL THEN
        INSERT INTO delta (queue, n, day, tally) VALUES (k.queue, 1, c.at / {{day_ms}}, c.tally);
    END IF;
    -- Take it out of the indexes of its old state.
    INSERT INTO delta (queue, n, state) VALUES (k.queue, -1, k.state);
    IF k.dead THEN
        INSERT INTO delta (queue, n, state) VALUES (k.queue, -1, '+dead');
    END IF;
    IF c.lists_out IS NOT NULL THEN
        DELETE FROM listed l WHERE l.list = ANY (c.lists_out) AND l.seq = c.seq;
    END IF;
    IF k.state = 'pending' THEN
        DELETE FROM ready e WHERE e.lane = c.old_lane AND e.ord = c.old_ord AND e.seq = c.seq;
        was_ready := FOUND;
        IF NOT was_ready AND k.key IS NOT NULL THEN
            DELETE FROM parked e WHERE e.queue = k.queue AND e.key = k.key AND e.level = c.old_level
                AND e.ord = c.old_ord AND e.seq = c.seq;
            INSERT INTO delta (queue, n, state) VALUES (k.queue, -1, '+parked');
        END IF;
    ELSIF k.state = 'blocked' AND c.state IS DISTINCT FROM 'blocked' THEN
        DELETE FROM fan_in WHERE child = c.id;
        DELETE FROM satisfied WHERE child = c.id;
    END IF;
    -- Only what was ready or active has a slot of its key to give back.
    IF k.key IS NOT NULL AND (was_ready OR k.state = 'active' AND c.state IS DISTINCT FROM 'active') THEN
        IF leave_key(k.queue, k.key, c.lane IS NOT NULL) THEN
            woken := woken || k.queue;
        END IF;
    END IF;
    IF c.leaves IS NOT NULL THEN
        DELETE FROM unique_key u WHERE u.key = c.leaves AND u.id = c.id;
    END IF;

    p := places(2);
    INSERT INTO event (place, pos, seq, prev, at, body) VALUES (p, nextval('event_pos'), c.seq, k.last, c.at, c.event);
    IF c.state IS NULL THEN
        due := delete_record(c.seq, c.id, c.digest, k.state, c.writes, c.last_run, c.report, k.last, NULL, t);
        kind := 'a';
        RETURN;
    END IF;
    UPDATE task k SET {{what_a_move_sets}}, last = p WHERE k.seq = c.seq;
    INSERT INTO delta (queue, n, state) VALUES (k.queue, 1, c.state);
    IF c.lists_in IS NOT NULL THEN
        INSERT INTO listed (list, seq) SELECT u, c.seq FROM unnest(c.lists_in) u ON CONFLICT DO NOTHING;
    END IF;
    IF c.dead THEN
        INSERT INTO delta (queue, n, state) VALUES (k.queue, 1, '+dead');
    END IF;
    IF c.lane IS NOT NULL THEN
        IF k.key IS NOT NULL THEN
            woken := woken || place_keyed(false, ARRAY[k.queue], ARRAY[k.key], ARRAY[c.lane], ARRAY[c.level],
                ARRAY[c.ord], ARRAY[c.seq], ARRAY[c.dead_at], ARRAY[c.first_limit],
                ARRAY[c.run_no], ARRAY[c.frees], NULL);
        ELSE
            INSERT INTO ready (lane, ord, seq, dead_at, first_limit, run_no, frees)
            VALUES (c.lane, c.ord, c.seq, c.dead_at, c.first_limit, c.run_no, c.frees);
        END IF;
        PERFORM lower_marks(ARRAY[c.lane], ARRAY[c.ord]);
    END IF;
    kind := 'a';
    IF c.state NOT IN ({{live_states}}) THEN
        SELECT bool_or(NOT e.settled) INTO unsettled_edges FROM edge e WHERE e.parent = c.id;
        IF unsettled_edges THEN
            INSERT INTO unsettled (parent) VALUES (c.id) ON CONFLICT DO NOTHING;
        END IF;
        kind := CASE WHEN unsettled_edges IS NULL THEN 'a' ELSE 'd' END;
    END IF;
    IF c.discard IS NOT NULL THEN
        IF is_needed(c.id) THEN
            INSERT INTO put_off (parent) VALUES (c.id) ON CONFLICT DO NOTHING;
        ELSE
            INSERT INTO delta (queue, n, state) VALUES (k.queue, -1, c.state);
            IF c.dead THEN
                INSERT INTO delta (queue, n, state) VALUES (k.queue, -1, '+dead');
            END IF;
            IF c.end_lists IS NOT NULL THEN
                DELETE FROM listed l WHERE l.list = ANY (c.end_lists) AND l.seq = c.seq;
            END IF;
            IF c.discard_leaves IS NOT NULL THEN
                DELETE FROM unique_key u WHERE u.key = c.discard_leaves AND u.id = c.id;
            END IF;
            INSERT INTO event (place, pos, seq, prev, at, body)
            VALUES (p + 1, nextval('event_pos'), c.seq, p, c.at, c.discard);
            due := delete_record(c.seq, c.id, c.digest, c.state, c.write_id, c.last_run, c.report, p, p + 1, t);
        END IF;
    END IF;
END $$;

-- `p_queues` are those of the changes, each once; `p_keys` the concurrency keys among them, beside
-- the queue of each. `kinds` is NULL when all were applied and none has dependents.
CREATE FUNCTION commit_changes(
    p_told bigint, p_me text, p_changes change[], p_queues integer[], p_key_queues integer[], p_keys text[],
    OUT told bigint, OUT pos bigint, OUT wanted text[], OUT promoted integer[], OUT due boolean, OUT kinds text[], OUT holders text[]
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE
    t bigint; size integer := cardinality(p_changes); seqs bigint[]; c change; r record; o record;
    edges boolean; first bigint;
BEGIN
    IF cardinality(p_keys) > 0 THEN
        PERFORM hold_keys(p_key_queues, p_keys);
    END IF;
    t := write_time(p_told);
    told := t;
    due := false;
    first := place_of(0);
    -- LIMIT, OFFSET and `||` are for the planner, see `commit_ends`. `ready` entries never move.
    WITH moved AS (
        UPDATE task k SET {{what_a_move_sets}}, prev = k.last, last = first + c.i
        FROM (SELECT u.ordinality AS i, u.*
            FROM unnest(p_changes) WITH ORDINALITY u WHERE u.plain LIMIT size) c
        WHERE k.seq = ANY (ARRAY[c.seq]) AND k.revision = c.revision AND k.state || '' = c.was AND k.dead = c.was_dead
            AND (c.seen_lease IS NULL OR k.lease_until IS NOT DISTINCT FROM c.seen_lease)
        RETURNING c.i, c.seq, k.last, c.at, c.event, c.state, c.dead, c.was, c.was_dead, c.old_lane,
            c.old_ord, c.lane, c.ord, c.dead_at, c.first_limit, c.run_no, c.frees, c.tally, k.queue, k.prev
    ), logged AS (
        INSERT INTO event (place, pos, seq, prev, at, body)
        SELECT m.last, nextval('event_pos'), m.seq, m.prev, m.at, m.event FROM moved m
    ), left_ready AS (
        DELETE FROM ready e USING moved m CROSS JOIN LATERAL (
            SELECT x.ctid AS entry FROM ready x
            WHERE x.lane = m.old_lane AND x.ord = m.old_ord AND x.seq = m.seq OFFSET 0
        ) x WHERE m.old_lane IS NOT NULL AND e.ctid = x.entry
    ), entered AS (
        INSERT INTO ready (lane, ord, seq, dead_at, first_limit, run_no, frees)
        SELECT m.lane, m.ord, m.seq, m.dead_at, m.first_limit, m.run_no, m.frees
        FROM moved m WHERE m.lane IS NOT NULL
    ), counted AS (
        INSERT INTO delta (queue, n, state, was, day, tally)
        SELECT m.queue, count(*), m.state, m.was, m.at / {{day_ms}}, m.tally
        FROM moved m WHERE m.state <> m.was GROUP BY 1, 3, 4, 5, 6
        UNION ALL SELECT m.queue, sum(CASE WHEN m.dead THEN 1 ELSE -1 END), '+dead', NULL, NULL, NULL
        FROM moved m WHERE m.dead <> m.was_dead GROUP BY 1
    )
    SELECT count(*) AS n, array_agg(m.i) AS done,
        array_agg(m.lane) FILTER (WHERE m.lane IS NOT NULL) AS lanes,
        array_agg(m.ord) FILTER (WHERE m.lane IS NOT NULL) AS ords,
        array_agg(m.i) FILTER (WHERE m.state NOT IN ({{live_states}})) AS ended
    INTO o FROM moved m;
    IF o.lanes IS NOT NULL THEN
        PERFORM lower_marks(o.lanes, o.ords);
    END IF;
    IF o.n < size THEN
        -- The rest: conflict or gone, told apart by `change_one`, and what was not plain.
        SELECT array_agg(CASE WHEN x.i = ANY (o.done) THEN 'a' END ORDER BY x.i) INTO kinds FROM generate_series(1, size) x (i);
        holders := array_fill(NULL::text, ARRAY[size]);
    END IF;
    -- The limited queues among them may have room again.
    SELECT EXISTS (SELECT FROM edge),
        ARRAY(SELECT q.id FROM queue q WHERE q.id = ANY (p_queues) AND q.max_concurrent IS NOT NULL),
        (SELECT array_agg(DISTINCT k) FROM sleeper s, unnest(s.kinds) k WHERE s.instance <> p_me)
    INTO edges, promoted, wanted;
    IF o.ended IS NOT NULL AND edges THEN
        kinds := coalesce(kinds, array_fill('a'::text, ARRAY[size]));
        FOR r IN SELECT u.i, u.id, bool_or(NOT e.settled) AS unsettled
            FROM (SELECT x.ordinality AS i, x.id FROM unnest(p_changes) WITH ORDINALITY x
                WHERE x.ordinality = ANY (o.ended)) u
            CROSS JOIN LATERAL (SELECT x.settled FROM edge x WHERE x.parent = u.id OFFSET 0) e GROUP BY 1, 2
        LOOP
            kinds[r.i] := 'd';
            IF r.unsettled THEN
                INSERT INTO unsettled (parent) VALUES (r.id) ON CONFLICT DO NOTHING;
            END IF;
        END LOOP;
    END IF;

    IF o.n < size THEN
        -- A record read before it had a key of the store's own is found by its id.
        SELECT array_agg(CASE WHEN u.seq = 0 THEN coalesce(d.seq, 0) ELSE u.seq END ORDER BY u.ordinality) INTO seqs
        FROM unnest(p_changes) WITH ORDINALITY u
        LEFT JOIN LATERAL (SELECT x.seq FROM definition x WHERE x.id = u.id AND u.seq = 0 OFFSET 0) d ON true;
        PERFORM FROM task k
        WHERE k.seq = ANY (ARRAY(SELECT u.seq FROM unnest(seqs, kinds) u (seq, kind) WHERE u.kind IS NULL))
        ORDER BY k.seq FOR UPDATE;
        FOR i IN 1..size LOOP
            CONTINUE WHEN kinds[i] IS NOT NULL;
            c := p_changes[i];
            c.seq := seqs[i];
            SELECT x.* INTO o FROM change_one(c, t) x;
            kinds[i] := o.kind;
            holders[i] := o.holder;
            promoted := promoted || o.woken;
            due := due OR o.due;
        END LOOP;
        wanted := sleepers(p_me);  -- after the events, or a process that marks itself in between is not hinted
    END IF;
    pos := nextval('event_pos');
END $$;
