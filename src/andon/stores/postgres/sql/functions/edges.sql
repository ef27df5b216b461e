-- Dependencies. Everything here is idempotent.

-- The state of a task, or the one that it was in when it was deleted within the submit window.
CREATE FUNCTION state_of(p_id text, t bigint) RETURNS text LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
BEGIN
    RETURN coalesce((SELECT k.state FROM definition d JOIN task k ON k.seq = ANY (ARRAY[d.seq])
            WHERE d.id = p_id),
        (SELECT s.state FROM stub s WHERE s.id = p_id AND s.at > t - {{submit_window_ms}}));
END $$;

-- Edges of blocked children, each beside its parents; `p_parents` are the parents of one after those of
-- the other, `p_sizes` how many each has. Rows: the place of the link, and a parent that has ended (state
-- NULL: that does not exist).
--
-- Whoever ends a parent sees its edges, or ended it before they were looked for: all the parents'
-- rows are locked first, in the order in which commits lock them, so neither waits for the other in a
-- ring. Then everything is read once, and written in the order of its keys.
CREATE FUNCTION link_children(
    p_told bigint, p_children text[], p_sizes integer[], p_parents text[], p_loads boolean[], p_any boolean[]
) RETURNS TABLE (i bigint, parent text, state text) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := store_time(p_told);
BEGIN
    PERFORM FROM task k WHERE k.seq = ANY (ARRAY(
        SELECT d.seq FROM (SELECT DISTINCT u FROM unnest(p_parents) u) u
        CROSS JOIN LATERAL (SELECT x.seq FROM definition x WHERE x.id = u OFFSET 0) d
    )) ORDER BY k.seq FOR SHARE;
    RETURN QUERY
    WITH child AS MATERIALIZED (
        SELECT c.i, c.child, c.loads, c.any_end, c.upto - c.size AS before, c.upto
        FROM (
            SELECT u.i, u.child, u.loads, u.any_end, u.size, sum(u.size) OVER (ORDER BY u.i) AS upto
            FROM unnest(p_children, p_sizes, p_loads, p_any) WITH ORDINALITY u (child, size, loads, any_end, i)
        ) c
        CROSS JOIN LATERAL (SELECT x.seq FROM definition x WHERE x.id = c.child OFFSET 0) d
        CROSS JOIN LATERAL (SELECT FROM task x WHERE x.seq = d.seq AND x.state || '' = 'blocked' OFFSET 0) k
    ), pair AS MATERIALIZED (
        SELECT c.i, c.child, c.loads, c.any_end, p_parents[n] AS parent, n,
            EXISTS (SELECT FROM satisfied s WHERE s.child = c.child AND s.parent = p_parents[n] AND NOT s.fails)
                AS is_satisfied
        FROM child c CROSS JOIN LATERAL generate_series(c.before::integer + 1, c.upto::integer) n
        WHERE p_parents[n] <> c.child
    ), known AS MATERIALIZED (
        SELECT p.*, d.seq IS NOT NULL AS lives, CASE WHEN p.is_satisfied THEN 'completed' ELSE coalesce(k.state,
            (SELECT s.state FROM stub s WHERE s.id = p.parent AND s.at > t - {{submit_window_ms}})) END AS state
        FROM pair p
        LEFT JOIN LATERAL (SELECT x.seq FROM definition x WHERE x.id = p.parent OFFSET 0) d ON true
        LEFT JOIN LATERAL (SELECT x.state FROM task x WHERE x.seq = d.seq OFFSET 0) k ON true
    ), edges AS (
        -- Parents that live hold the child up. The edge of an ended one is settled: it keeps the result
        -- that is loaded, lets a rerun of one that failed satisfy yet, and tells who depends on it. (One
        -- counted off already comes again if the child was perhaps not told that it is free.)
        SELECT DISTINCT ON (x.parent, x.child) x.parent, x.child, x.loads, x.any_end, x.holds FROM (
            SELECT k.*, NOT k.is_satisfied AND k.state IN ({{live_states}}) AS holds
            FROM known k
        ) x
        WHERE x.holds OR x.lives AND CASE WHEN x.is_satisfied THEN x.loads
            ELSE x.state <> 'unknown' END
        ORDER BY x.parent, x.child
    ), written AS (
        INSERT INTO edge AS e (parent, child, loads, any_end, settled)
        SELECT x.parent, x.child, x.loads, x.any_end, NOT x.holds FROM edges x
        ON CONFLICT (parent, child) DO UPDATE
        SET settled = e.settled AND excluded.settled, loads = e.loads OR excluded.loads
        WHERE NOT excluded.settled OR excluded.loads AND NOT e.loads
    )
    SELECT k.i, k.parent, k.state FROM known k
    WHERE k.is_satisfied OR coalesce(k.state NOT IN ({{live_states}}), true)
    ORDER BY k.i, k.n;
END $$;

CREATE FUNCTION settle_edges(
    p_told bigint, p_children text[], p_parents text[], p_satisfied boolean[], OUT remaining bigint[], OUT due boolean
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := write_time(p_told); r record; n bigint;
BEGIN
    due := false;
    remaining := array_fill(0::bigint, ARRAY[cardinality(p_children)]);
    -- The counts first, in one order: of two at once, one sees the other's marks.
    PERFORM FROM fan_in f WHERE f.child = ANY (p_children) ORDER BY f.child FOR UPDATE;
    FOR r IN SELECT u.* FROM unnest(p_children, p_parents, p_satisfied) WITH ORDINALITY u (child, parent, satisfied, i)
        ORDER BY u.i LOOP
        UPDATE edge e SET settled = true WHERE e.parent = r.parent AND e.child = r.child AND NOT e.settled;
        IF r.satisfied THEN
            PERFORM FROM fan_in f WHERE f.child = r.child;
            IF FOUND THEN
                DELETE FROM satisfied s WHERE s.child = r.child AND s.parent = r.parent AND s.fails;
                IF FOUND THEN
                    UPDATE fan_in f SET spare = f.spare + 1 WHERE f.child = r.child;
                END IF;
                INSERT INTO satisfied VALUES (r.child, r.parent) ON CONFLICT DO NOTHING;
                IF FOUND THEN
                    UPDATE fan_in f SET remaining = f.remaining - 1 WHERE f.child = r.child;
                END IF;
            END IF;
            -- A child that has left `blocked` has no count any more: nothing remains.
            remaining[r.i] := coalesce((SELECT f.remaining FROM fan_in f WHERE f.child = r.child), 0);
        ELSE
            INSERT INTO satisfied (child, parent, fails) SELECT r.child, r.parent, true
            FROM fan_in f WHERE f.child = r.child AND f.spare IS NOT NULL ON CONFLICT DO NOTHING;
            IF FOUND THEN
                UPDATE fan_in f SET spare = f.spare - 1 WHERE f.child = r.child;
            END IF;
            remaining[r.i] := coalesce((SELECT f.spare FROM fan_in f WHERE f.child = r.child), -1);
        END IF;
    END LOOP;
    FOR r IN SELECT DISTINCT u AS parent FROM unnest(p_parents) u ORDER BY 1 LOOP
        due := let_go(r.parent, t) OR due;
    END LOOP;
END $$;

-- Edges hold nothing up any more: they count as told, and keep no result; whether a deletion put off is
-- due again.
CREATE FUNCTION let_go_of_edges(p_told bigint, p_parents text[], p_children text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := write_time(p_told); r record; due boolean := false;
BEGIN
    UPDATE edge e SET settled = true, loads = false FROM unnest(p_parents, p_children) u (parent, child)
    WHERE e.parent = ANY (ARRAY[u.parent]) AND e.child = ANY (ARRAY[u.child]);
    FOR r IN SELECT DISTINCT u AS parent FROM unnest(p_parents) u ORDER BY 1 LOOP
        due := let_go(r.parent, t) OR due;
    END LOOP;
    RETURN due;
END $$;

-- Forget edges, settled or not; whether a deletion put off is due again.
CREATE FUNCTION unlink_edges(p_told bigint, p_parents text[], p_children text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := write_time(p_told); r record; due boolean := false;
BEGIN
    DELETE FROM edge e USING unnest(p_parents, p_children) u (parent, child)
    WHERE e.parent = ANY (ARRAY[u.parent]) AND e.child = ANY (ARRAY[u.child]);
    FOR r IN SELECT DISTINCT u AS parent FROM unnest(p_parents) u ORDER BY 1 LOOP
        due := let_go(r.parent, t) OR due;
    END LOOP;
    RETURN due;
END $$;
