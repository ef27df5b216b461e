-- Creating. One call, whatever the batch: definitions first (the unique index tells new
-- ids from known ones), then what refuses single records, then the rest in one insert per table.
-- `free`: on the connection of a user's transaction. Nothing that others wait for is locked there:
-- the timekeeper admits tasks with keys later, and a size limit counts only what is committed.
--
-- outcomes: n created, e exists (with digest from body, or the stub's), k key held, f full.
CREATE TYPE new_task AS (
    id text, definition bytea, partition integer, queue integer, state text, revision bigint,
    created bigint, timer bigint, key text, "group" text, dead boolean, status bytea, event bytea,
    lane integer, level integer, ord bigint, dead_at bigint, first_limit bigint, run_no integer, frees text,
    remaining bigint, unique_key text, unique_until bigint, heir_of text, spare bigint,
    lists text                -- by name, as a JSON array, for tags hold any text; NULL: it stands in none
);

-- The last arguments sum the batch up, because a look at every row costs as much as a small table:
-- its queues, keys (with the queue of each) and lanes (with the least place in each), and whether
-- there are unique keys and dead letters, dependencies or lists by name among them.
CREATE FUNCTION create_tasks(
    p_told bigint, p_me text, p_free boolean, p_tasks new_task[], p_queues integer[], p_key_queues integer[],
    p_keys text[], p_lanes integer[], p_lows bigint[], p_uniques boolean, p_more boolean,
    OUT told bigint, OUT pos bigint, OUT wanted text[], OUT promoted integer[], OUT outcomes text[],
    OUT states text[], OUT digests text[], OUT bodies bytea[], OUT holders text[]
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE
    t bigint := write_time(p_told);
    size integer := cardinality(p_tasks);
    first bigint := CASE WHEN p_free THEN places(size) ELSE place_of(0) END;
    seqs bigint[]; posits bigint[]; written integer; r record; holder text; at integer; sized boolean;
    stubs boolean; lower boolean;
    taken_keys text[] := '{}'; taken_ids text[] := '{}'; sizes jsonb := '{}'; pending bigint;
    reserved boolean;
BEGIN
    told := t;
    SELECT array_agg(nextval('task_seq')), array_agg(nextval('event_pos')),
        EXISTS (SELECT FROM queue c WHERE c.id = ANY (p_queues) AND c.max_size IS NOT NULL)
    INTO seqs, posits, sized FROM generate_series(1, size);
    pos := posits[size];
    IF cardinality(p_keys) > 0 AND NOT p_free THEN
        PERFORM hold_keys(p_key_queues, p_keys);
    END IF;
    IF sized AND NOT p_free THEN
        FOR r IN SELECT c.id FROM queue c WHERE c.id = ANY (p_queues) AND c.max_size IS NOT NULL ORDER BY 1 LOOP
            PERFORM lock_name('size ' || r.id);
        END LOOP;
    END IF;
    INSERT INTO definition (seq, id, body)
    SELECT u.seq, u.id, u.definition FROM unnest(seqs, p_tasks) u (seq) ORDER BY u.id
    ON CONFLICT (id) DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;

    IF written < size THEN
        outcomes := array_fill('n'::text, ARRAY[size]);
        states := array_fill(NULL::text, ARRAY[size]);
        bodies := array_fill(NULL::bytea, ARRAY[size]);
        -- (assigned to one by one, an array would begin at the first place that was assigned to)
        FOR r IN
            SELECT u.ordinality AS i, d.body, coalesce(k.state, u.state) AS state
            FROM unnest(seqs, p_tasks) WITH ORDINALITY u (seq)
            JOIN definition d ON d.id = ANY (ARRAY[u.id])
            LEFT JOIN task k ON k.seq = ANY (ARRAY[d.seq]) WHERE d.seq <> u.seq
        LOOP
            outcomes[r.i] := 'e'; states[r.i] := r.state; bodies[r.i] := r.body;
        END LOOP;
    END IF;

    SELECT EXISTS (SELECT FROM stub s WHERE s.at > 0 AND s.at > t - {{submit_window_ms}}),
        EXISTS (SELECT FROM unnest(p_lanes, p_lows) u (lane, ord) JOIN lane l ON l.id = u.lane
            WHERE l.mark > u.ord OR l.quiet > 0),
        (SELECT array_agg(DISTINCT k) FROM sleeper s, unnest(s.kinds) k WHERE s.instance <> p_me)
    INTO stubs, lower, wanted;
    IF stubs THEN
        FOR r IN
            SELECT u.ordinality AS i, u.seq, s.state, s.digest FROM unnest(seqs, p_tasks) WITH ORDINALITY u (seq)
            CROSS JOIN LATERAL (
                SELECT x.state, x.digest FROM stub x WHERE x.id = u.id AND x.at > t - {{submit_window_ms}} OFFSET 0
            ) s
        LOOP
            outcomes := coalesce(outcomes, array_fill('n'::text, ARRAY[size]));
            states := coalesce(states, array_fill(NULL::text, ARRAY[size]));
            digests := coalesce(digests, array_fill(NULL::text, ARRAY[size]));
            CONTINUE WHEN outcomes[r.i] <> 'n';
            outcomes[r.i] := 'e'; states[r.i] := r.state; digests[r.i] := r.digest;
            DELETE FROM definition d WHERE d.seq = r.seq;
        END LOOP;
    END IF;

    IF p_uniques OR sized THEN
        outcomes := coalesce(outcomes, array_fill('n'::text, ARRAY[size]));
        holders := array_fill(NULL::text, ARRAY[size]);
        -- Everybody locks keys in their order; the last places of a queue are given in the batch's. So
        -- with both, the keys are reserved first, each for the first who wants it.
        IF p_uniques AND sized THEN
            FOR r IN
                SELECT DISTINCT ON (u.unique_key) u.id, u.unique_key AS key, u.unique_until AS until, u.heir_of
                FROM unnest(outcomes, p_tasks) WITH ORDINALITY u (outcome)
                WHERE u.outcome = 'n' AND u.unique_key IS NOT NULL AND (u.unique_until IS NULL OR u.unique_until > t)
                ORDER BY u.unique_key, u.ordinality
            LOOP
                PERFORM take_unique(r.key, r.id, r.until, t, r.heir_of);
            END LOOP;
        END IF;
        FOR r IN
            SELECT u.ordinality AS i, u.seq, u.id, u.queue, u.unique_key AS key, u.unique_until AS until, u.heir_of, c.max_size
            FROM unnest(seqs, p_tasks) WITH ORDINALITY u (seq)
            LEFT JOIN queue c ON c.id = u.queue AND c.max_size IS NOT NULL AND u.lane IS NOT NULL
            ORDER BY CASE WHEN sized THEN NULL ELSE u.unique_key END, u.ordinality
        LOOP
            CONTINUE WHEN outcomes[r.i] <> 'n';
            reserved := r.key IS NOT NULL AND (r.until IS NULL OR r.until > t);
            IF reserved THEN
                at := array_position(taken_keys, r.key);
                holder := CASE WHEN at IS NULL THEN take_unique(r.key, r.id, r.until, t, r.heir_of)
                    ELSE taken_ids[at] END;
                IF holder IS NOT NULL THEN
                    outcomes[r.i] := 'k'; holders[r.i] := holder;
                    DELETE FROM definition d WHERE d.seq = r.seq;
                    CONTINUE;
                END IF;
            END IF;
            IF r.max_size IS NOT NULL THEN
                pending := coalesce((sizes ->> r.queue::text)::bigint, counted(r.queue, 'pending'));
                IF pending >= r.max_size THEN
                    outcomes[r.i] := 'f';
                    IF reserved THEN
                        DELETE FROM unique_key u WHERE u.key = r.key AND u.id = r.id;
                    END IF;
                    DELETE FROM definition d WHERE d.seq = r.seq;
                    CONTINUE;
                END IF;
                sizes := sizes || jsonb_build_object(r.queue::text, pending + 1);
            END IF;
            IF reserved THEN
                taken_keys := taken_keys || r.key; taken_ids := taken_ids || r.id;
            END IF;
        END LOOP;
    END IF;

    WITH u AS MATERIALIZED (
        SELECT u.*, first + u.ordinality - 1 AS place
        FROM unnest(seqs, posits, outcomes, p_tasks) WITH ORDINALITY u (seq, pos, outcome)
        WHERE u.outcome IS NULL OR u.outcome = 'n'
    ), logged AS (
        INSERT INTO event (place, pos, seq, at, body) SELECT u.place, u.pos, u.seq, t, u.event FROM u
    ), stored AS (
        INSERT INTO task ({{new_columns}}, {{begun_columns}})
        SELECT {{new_values}}, {{begun_values}} FROM u
    ), entered AS (
        INSERT INTO ready (lane, ord, seq, dead_at, first_limit, run_no, frees)
        SELECT u.lane, u.ord, u.seq, u.dead_at, u.first_limit, u.run_no, u.frees
        FROM u WHERE u.lane IS NOT NULL AND u.key IS NULL
    )
    INSERT INTO delta (queue, n, state, day, tally)
    SELECT u.queue, count(*), u.state, u.created / {{day_ms}}, 'submitted' FROM u GROUP BY 1, 3, 4;
    IF p_more THEN
        INSERT INTO delta (queue, n, state)
        SELECT u.queue, count(*), '+dead' FROM unnest(outcomes, p_tasks) u (outcome)
        WHERE u.dead AND coalesce(u.outcome, 'n') = 'n' GROUP BY u.queue;
    END IF;
    IF cardinality(p_keys) > 0 THEN
        SELECT place_keyed(p_free, array_agg(u.queue), array_agg(u.key), array_agg(u.lane), array_agg(u.level),
            array_agg(u.ord), array_agg(u.seq), array_agg(u.dead_at), array_agg(u.first_limit),
            array_agg(u.run_no), array_agg(u.frees), array_agg(u.outcome))
        INTO promoted FROM unnest(seqs, outcomes, p_tasks) u (seq, outcome) WHERE u.key IS NOT NULL;
    END IF;
    IF lower THEN
        PERFORM lower_marks(p_lanes, p_lows);
    END IF;
    IF p_more THEN
        INSERT INTO listed (list, seq)
        SELECT l, u.seq FROM unnest(seqs, outcomes, p_tasks) u (seq, outcome)
        CROSS JOIN LATERAL jsonb_array_elements_text(u.lists::jsonb) l
        WHERE u.lists IS NOT NULL AND coalesce(u.outcome, 'n') = 'n';
        INSERT INTO fan_in (child, remaining, spare)
        SELECT u.id, u.remaining, u.spare FROM unnest(outcomes, p_tasks) u (outcome)
        WHERE u.remaining > 0 AND coalesce(u.outcome, 'n') = 'n' ON CONFLICT DO NOTHING;
    END IF;
END $$;

-- Put pending records with concurrency keys into the ready order, or park them; queues in which
-- something was let through. In a limited queue all of a key compete by their order for the room.
CREATE FUNCTION place_keyed(
    p_free boolean, p_queues integer[], p_keys text[], p_lanes integer[], p_levels integer[],
    p_ords bigint[], p_seqs bigint[], p_dead_at bigint[], p_first_limits bigint[],
    p_run_nos integer[], p_frees text[], p_outcomes text[]
) RETURNS integer[] LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE r record; promoted integer[] := '{}';
BEGIN
    FOR r IN
        SELECT u.*, c.per_key FROM unnest(p_queues, p_keys, p_lanes, p_levels, p_ords, p_seqs,
            p_dead_at, p_first_limits, p_run_nos, p_frees, p_outcomes)
            u (queue, key, lane, level, ord, seq, dead_at, first_limit, run_no, frees, outcome)
        LEFT JOIN queue c ON c.id = u.queue
        WHERE u.lane IS NOT NULL AND u.key IS NOT NULL AND coalesce(u.outcome, 'n') = 'n'
    LOOP
        IF r.per_key IS NULL AND NOT p_free THEN
            INSERT INTO ready (lane, ord, seq, dead_at, first_limit, run_no, frees, key)
            VALUES (r.lane, r.ord, r.seq, r.dead_at, r.first_limit, r.run_no, r.frees, r.key);
            promoted := promoted || r.queue;
            CONTINUE;
        END IF;
        INSERT INTO parked (queue, key, level, ord, seq, lane, dead_at, first_limit, run_no, frees)
        VALUES (r.queue, r.key, r.level, r.ord, r.seq, r.lane, r.dead_at, r.first_limit, r.run_no, r.frees);
        INSERT INTO delta (queue, n, state) VALUES (r.queue, 1, '+parked');
        IF p_free THEN
            INSERT INTO promotion (queue, key) VALUES (r.queue, r.key);
        ELSIF promote(r.queue, r.key) > 0 THEN
            promoted := promoted || r.queue;
        END IF;
    END LOOP;
    RETURN promoted;
END $$;
