-- Committing the ends of runs that are alike: the most frequent commit by far. What all
-- of them have in common (state, tally, dead letter or not) comes once, the rest as an array for each
-- column; `commit_changes` takes some forty columns for each change.
--
-- Each ends an active task without keys whose revision is the one given, and sets its result. What
-- is no longer so is left as it is, its kind NULL, for `commit_changes` to look at. `kinds` is NULL
-- when all were applied and none has dependents. `p_results` is empty when all have the result
-- `p_result`. `p_lists` are the lists by name that each enters, one for each; empty if none enters any.
CREATE FUNCTION commit_ends(
    p_told bigint, p_me text, p_queues integer[], p_state text, p_tally text, p_dead boolean, p_seqs bigint[],
    p_revisions bigint[], p_timers bigint[], p_at bigint[], p_statuses bytea[], p_events bytea[], p_results bytea[],
    p_result bytea, p_lists text[],
    OUT told bigint, OUT pos bigint, OUT wanted text[], OUT promoted integer[], OUT due boolean, OUT kinds text[], OUT holders text[]
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE
    t bigint := write_time(p_told); size integer := cardinality(p_seqs); done bigint[]; r record; edges boolean;
    first bigint := place_of(0);
BEGIN
    told := t;
    due := false;
    -- LIMIT takes none away: it is for the planner. A plan is made once in a session, often while the
    -- tables are empty. It expects ten rows of an array, and ten look-ups by key are dearer then than
    -- a walk through all active tasks that compares each with each of the array; with LIMIT it expects
    -- one, and that no index leads to the state once it is an expression. OFFSET in what only reads
    -- keeps a look-up by key one.
    WITH moved AS (
        UPDATE task k SET {{what_a_move_sets}}, prev = k.last, last = first + c.i
        FROM (SELECT x.*, x.revision + 1 AS new_revision, p_state AS state, p_dead AS dead, false AS asked,
                NULL::text AS run, NULL::text AS worker, true AS sets_result, coalesce(x.own, p_result) AS result
            FROM (SELECT u.* FROM unnest(p_seqs, p_revisions, p_timers, p_at, p_statuses, p_events, p_results)
                WITH ORDINALITY u (seq, revision, timer, at, status, event, own, i) LIMIT size) x) c
        WHERE k.seq = ANY (ARRAY[c.seq]) AND k.revision = c.revision AND k.state || '' = 'active' AND NOT k.dead
        RETURNING c.i, c.seq, c.at, c.event, k.last, k.prev, k.queue
    ), logged AS (
        INSERT INTO event (place, pos, seq, prev, at, body)
        SELECT m.last, nextval('event_pos'), m.seq, m.prev, m.at, m.event FROM moved m
    ), counted AS (
        INSERT INTO delta (queue, n, state, was, day, tally)
        SELECT m.queue, count(*), p_state, 'active', m.at / {{day_ms}}, p_tally FROM moved m GROUP BY 1, 5
        UNION ALL SELECT m.queue, count(*), '+dead', NULL, NULL, NULL FROM moved m WHERE p_dead GROUP BY 1
    )
    SELECT array_agg(m.i) INTO done FROM moved m;
    IF cardinality(p_lists) > 0 THEN
        INSERT INTO listed (list, seq)
        SELECT p_lists[u.i], p_seqs[u.i] FROM unnest(done) u (i) ON CONFLICT DO NOTHING;
    END IF;
    IF coalesce(cardinality(done), 0) < size THEN
        SELECT array_agg(CASE WHEN x.i = ANY (done) THEN 'a' END ORDER BY x.i) INTO kinds
        FROM generate_series(1, size) x (i);
    END IF;
    -- The limited queues among them may have room again.
    SELECT EXISTS (SELECT FROM edge),
        ARRAY(SELECT q.id FROM queue q WHERE q.id = ANY (p_queues) AND q.max_concurrent IS NOT NULL),
        (SELECT array_agg(DISTINCT k) FROM sleeper s, unnest(s.kinds) k WHERE s.instance <> p_me)
    INTO edges, promoted, wanted;
    IF edges THEN
        FOR r IN SELECT u.i, e.parent, bool_or(NOT e.settled) AS unsettled FROM unnest(done) u (i)
            CROSS JOIN LATERAL (
                SELECT x.id COLLATE "default" AS id FROM definition x WHERE x.seq = p_seqs[u.i] OFFSET 0
            ) d -- collated as the index of edges is, which would not be used otherwise
            CROSS JOIN LATERAL (SELECT x.parent, x.settled FROM edge x WHERE x.parent = d.id OFFSET 0) e
            GROUP BY 1, 2
        LOOP
            kinds := coalesce(kinds, array_fill('a'::text, ARRAY[size]));
            kinds[r.i] := 'd';
            IF r.unsettled THEN
                INSERT INTO unsettled (parent) VALUES (r.parent) ON CONFLICT DO NOTHING;
            END IF;
        END LOOP;
    END IF;
    pos := nextval('event_pos');
END $$;
