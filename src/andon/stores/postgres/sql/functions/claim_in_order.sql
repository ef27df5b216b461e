-- Picking from lanes whose entries come mixed, in their order: by queue, level, place and key.

-- Entries of lanes, of each those from its mark up to a place, and no more than `p_most`.
CREATE FUNCTION entries_of(
    p_lanes integer[], p_marks bigint[], p_places bigint[], p_levels integer[], p_types integer[],
    p_to_ords bigint[], p_to_seqs bigint[], p_most integer[], t bigint
) RETURNS TABLE (i bigint, place bigint, level integer, type integer, entry tid, ord bigint, seq bigint)
LANGUAGE sql STABLE AS $$
    SELECT l.i, l.place, l.level, l.type, e.entry, e.ord, e.seq
    FROM unnest(p_lanes, p_marks, p_places, p_levels, p_types, p_to_ords, p_to_seqs, p_most)
        WITH ORDINALITY l (lane, mark, place, level, type, to_ord, to_seq, most, i)
    CROSS JOIN LATERAL (
        SELECT x.ctid AS entry, x.ord, x.seq FROM {schema}.ready x
        WHERE x.lane = l.lane AND x.ord >= l.mark AND (x.ord, x.seq) <= (l.to_ord, l.to_seq)
            AND (x.dead_at IS NULL OR x.dead_at > t)
        ORDER BY x.lane, x.ord, x.seq LIMIT l.most
    ) e
$$;

-- The same without those that there is no room for: of each queue (by its place) and each limited type
-- the first `p_allowed` and `p_room`, and some more, since others may have locked them. (Who claims from
-- a limited queue is alone there.)
CREATE FUNCTION entries_with_room(
    p_lanes integer[], p_marks bigint[], p_places bigint[], p_levels integer[], p_types integer[],
    p_to_ords bigint[], p_to_seqs bigint[], p_most integer[], t bigint,
    p_allowed integer[], p_limited integer[], p_room integer[]
) RETURNS TABLE (i bigint, place bigint, level integer, type integer, entry tid, ord bigint, seq bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF p_allowed IS NULL THEN
        RETURN QUERY SELECT e.* FROM entries_of(
            p_lanes, p_marks, p_places, p_levels, p_types, p_to_ords, p_to_seqs, p_most, t) e;
        RETURN;
    END IF;
    RETURN QUERY SELECT x.i, x.place, x.level, x.type, x.entry, x.ord, x.seq FROM (
        SELECT e.*, row_number() OVER (PARTITION BY e.place ORDER BY e.level, e.ord, e.seq) AS of_queue,
            row_number() OVER (PARTITION BY e.type ORDER BY e.place, e.level, e.ord, e.seq) AS of_type
        FROM entries_of(p_lanes, p_marks, p_places, p_levels, p_types, p_to_ords, p_to_seqs, p_most, t) e
    ) x WHERE x.of_queue <= p_allowed[x.place] + 8 + 64 * cardinality(p_limited)
        AND coalesce(x.of_type <= p_room[array_position(p_limited, x.type)] + 64, true);
END $$;

-- Those of all these lanes that come first, from the `p_from`th on up to about the `p_to`th. Further
-- turns of a statement give nothing if all were given.
--
-- No lane is read further than to the place before which so many stand together. That place is found by
-- the first few entries of each lane; if many are empty, by some more of the others.
CREATE FUNCTION first_in_order(
    p_lanes integer[], p_marks bigint[], p_places bigint[], p_levels integer[], p_types integer[],
    p_allowed integer[], p_limited integer[], p_room integer[], p_turn integer, p_from integer, p_to integer,
    t bigint
) RETURNS TABLE (entry tid, seq bigint, place bigint, type integer)
LANGUAGE plpgsql STABLE SET enable_memoize = off AS $$  -- what is looked up comes once
#variable_conflict use_column
DECLARE
    last bigint := 9223372036854775807; few integer := 1; n integer;
    l record;  -- lanes that may have something, as arrays
    u record;  -- the place up to which they are read, and those that have something before it
BEGIN
    IF p_turn > 0 AND current_setting('andon.whole') = 'true' THEN
        RETURN;
    END IF;
    SELECT p_lanes AS lanes, p_marks AS marks, p_places AS places, p_levels AS levels, p_types AS types INTO l;
    LOOP
        n := cardinality(l.lanes);
        few := greatest(1 + 2 * p_to / n, least(4 * few, p_to));
        WITH c AS MATERIALIZED (
            SELECT e.i, e.place, e.level, e.ord, e.seq FROM entries_with_room(
                l.lanes, l.marks, l.places, l.levels, l.types, array_fill(last, ARRAY[n]), array_fill(last, ARRAY[n]),
                array_fill(few, ARRAY[n]), t, p_allowed, p_limited, p_room) e
        ), b AS (
            SELECT c.place, c.level, c.ord, c.seq FROM c ORDER BY 1, 2, 3, 4 OFFSET p_to - 1 LIMIT 1
        ), h AS (
            SELECT DISTINCT c.i, coalesce((c.place, c.level) = (b.place, b.level), false) AS is_last
            FROM c LEFT JOIN b ON true
            WHERE b.place IS NULL OR (c.place, c.level, c.ord, c.seq) <= (b.place, b.level, b.ord, b.seq)
        )
        SELECT x.*, b.place IS NOT NULL AS is_found INTO u
        FROM (
            SELECT array_agg((l.lanes)[h.i]) AS lanes, array_agg((l.marks)[h.i]) AS marks,
                array_agg((l.places)[h.i]) AS places, array_agg((l.levels)[h.i]) AS levels,
                array_agg((l.types)[h.i]) AS types, array_agg(CASE WHEN h.is_last THEN b.ord ELSE last END) AS to_ords,
                array_agg(CASE WHEN h.is_last THEN b.seq ELSE last END) AS to_seqs
            FROM h LEFT JOIN b ON true
        ) x LEFT JOIN b ON true;
        -- Fewer than that are all there are, or more of those lanes that are not empty must be read.
        EXIT WHEN u.is_found OR u.lanes IS NULL OR few >= p_to;
        SELECT u.lanes, u.marks, u.places, u.levels, u.types INTO l;
    END LOOP;
    PERFORM set_config('andon.whole', (NOT u.is_found OR u.lanes IS NULL)::text, true);
    IF u.lanes IS NOT NULL THEN
        RETURN QUERY SELECT e.entry, e.seq, e.place, e.type FROM entries_with_room(
            u.lanes, u.marks, u.places, u.levels, u.types, u.to_ords, u.to_seqs,
            array_fill(p_to, ARRAY[cardinality(u.lanes)]), t, p_allowed, p_limited, p_room) e
        ORDER BY e.place, e.level, e.ord, e.seq OFFSET p_from;
    END IF;
END $$;

-- Entries and tasks, locked, of those that come first in these lanes. `p_allowed` is how many each queue
-- lets through, by its place among those asked; `p_room`, how many of each of the `p_limited` types the
-- worker has room for. What others have locked is passed over: then those after come, more and more.
--
-- Everything is read by one statement, however far it goes, and so by one snapshot, from before the
-- transaction has its number (see `claim_tasks`). What is locked in a LATERAL of its own is looked up one
-- after the other: a plain join of the two tables may start from either of them where it was found empty.
CREATE FUNCTION pick_in_order(
    p_lanes integer[], p_marks bigint[], p_places bigint[], p_levels integer[], p_types integer[],
    p_allowed integer[], p_limited integer[], p_room integer[], p_limit integer, t bigint,
    OUT entries tid[], OUT tasks tid[]
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    allowed integer[] := p_allowed; room integer[] := p_room; at integer; r record; picking refcursor;
    wide integer := p_limit + 8; most integer;
BEGIN
    IF cardinality(p_limited) = 0 AND p_limit <= ALL (p_allowed) THEN
        SELECT array_agg(x.entry), array_agg(x.task) INTO entries, tasks FROM (
            SELECT z.* FROM generate_series(0, 5) turn
            CROSS JOIN LATERAL first_in_order(p_lanes, p_marks, p_places, p_levels, p_types, NULL, p_limited, p_room,
                turn, CASE WHEN turn = 0 THEN 0 ELSE wide * (4 ^ (turn - 1))::integer END, wide * (4 ^ turn)::integer, t) c
            CROSS JOIN LATERAL (
                SELECT e.ctid AS entry, k.ctid AS task FROM ready e JOIN task k ON k.seq = ANY (ARRAY[e.seq])
                WHERE e.ctid = c.entry FOR UPDATE OF e, k SKIP LOCKED
            ) z LIMIT p_limit
        ) x;
        RETURN;
    END IF;
    entries := '{}'; tasks := '{}';
    -- No more than the queues let through, or the worker has room for, has to be looked for.
    SELECT least(p_limit, sum(p_allowed[x.place])) INTO most FROM (SELECT DISTINCT u AS place FROM unnest(p_places) u) x;
    IF p_types <@ p_limited THEN
        SELECT least(most, sum(u.room)) INTO most FROM unnest(p_limited, p_room) u (type, room) WHERE u.type = ANY (p_types);
    END IF;
    OPEN picking FOR
        SELECT z.*, c.place, c.type FROM generate_series(0, 5) turn
        CROSS JOIN LATERAL first_in_order(p_lanes, p_marks, p_places, p_levels, p_types, p_allowed, p_limited, p_room,
            turn, 0, wide * (4 ^ turn)::integer, t) c
        CROSS JOIN LATERAL (
            SELECT e.ctid AS entry, k.ctid AS task FROM ready e JOIN task k ON k.seq = ANY (ARRAY[e.seq])
            WHERE e.ctid = c.entry FOR UPDATE OF e, k SKIP LOCKED
        ) z;
    WHILE cardinality(tasks) < most LOOP
        FETCH picking INTO r;
        EXIT WHEN NOT FOUND;
        at := array_position(p_limited, r.type);
        CONTINUE WHEN allowed[r.place] <= 0 OR at IS NOT NULL AND room[at] <= 0 OR r.entry = ANY (entries);
        allowed[r.place] := allowed[r.place] - 1;
        IF at IS NOT NULL THEN
            room[at] := room[at] - 1;
        END IF;
        entries := entries || r.entry; tasks := tasks || r.task;
    END LOOP;
    CLOSE picking;
END $$;
