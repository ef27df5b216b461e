-- Lanes: where ready tasks stand, by queue, partition, level and kind.

-- Ids of lanes, new ones made. Run in a transaction of its own.
CREATE FUNCTION lane_ids(queues integer[], partitions integer[], levels integer[], kinds integer[], types integer[])
RETURNS TABLE (id integer, queue integer, partition integer, level integer, kind integer, type integer)
LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO lane (queue, partition, level, kind, type)
    SELECT DISTINCT * FROM unnest(queues, partitions, levels, kinds, types) u (q, p, l, k, t)
    WHERE NOT EXISTS (
        SELECT FROM lane a WHERE a.queue = q AND a.partition = p AND a.level = l AND a.kind = k)
    ORDER BY 1, 2, 3, 4 ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT a.id, a.queue, a.partition, a.level, a.kind, a.type
    FROM lane a JOIN unnest(queues, partitions, levels, kinds) u (q, p, l, k)
        ON a.queue = u.q AND a.partition = u.p AND a.level = u.l AND a.kind = u.k;
END $$;

-- Ready entries before a lane's mark, or in a lane that falls quiet, would not be seen: move the mark
-- back, and let the lane be looked at. In the order of their ids, in which all do it. The transaction
-- has its number already: see `keep_lanes`.
CREATE FUNCTION lower_marks(p_lanes integer[], p_ords bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE hidden integer[];
BEGIN
    SELECT array_agg(l.id ORDER BY l.id) INTO hidden
    FROM unnest(p_lanes, p_ords) u (lane, ord) JOIN lane l ON l.id = u.lane
    WHERE l.mark > u.ord OR l.quiet > 0;
    IF hidden IS NULL THEN
        RETURN;
    END IF;
    PERFORM FROM lane l WHERE l.id = ANY (hidden) ORDER BY l.id FOR NO KEY UPDATE;
    UPDATE lane l SET mark = least(l.mark, m.ord), quiet = 0, busy = CASE WHEN l.quiet > 0 THEN 0 ELSE l.busy END
    FROM (SELECT u.lane, min(u.ord) AS ord FROM unnest(p_lanes, p_ords) u (lane, ord)
        WHERE u.lane = ANY (hidden) GROUP BY 1) m
    WHERE l.id = m.lane AND (l.mark > m.ord OR l.quiet > 0);
END $$;

-- Move the marks of lanes on, and let those fall quiet that have been empty for half a minute. At most
-- once a second, whoever calls it. `moving`: queues in which something has moved since.
--
-- Each is looked at from its beginning: what a transaction entered at its old place before the mark had
-- come so far, and committed after, is found here, and moves the mark back.
--
-- A lane falls quiet in three steps, because a transaction under way may have looked at it before. First
-- it says that it falls quiet: a transaction that sees this while it enters something takes it
-- back (`lower_marks`).
-- Then, for that is committed now, it notes the number of the next transaction: all those from there on
-- will see it. When all before have ended and it is empty still, nobody needs to look at it.
CREATE FUNCTION keep_lanes(t bigint, low bigint, high bigint, moving integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    UPDATE meta m SET value = t::text WHERE m.name = 'lanes_kept' AND t - m.value::bigint NOT BETWEEN 0 AND 900;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE lane l SET mark = x.mark, busy = x.busy, quiet = x.quiet, quiet_xid = x.quiet_xid FROM (
        SELECT y.id, y.mark AS old_mark, y.quiet AS old_quiet, y.quiet_xid AS old_xid, y.busy AS old_busy,
            CASE WHEN y.first IS NOT NULL OR y.mark < t - 6000 OR y.queue = ANY (moving)
                THEN least(t - 1000, y.first) ELSE y.mark END AS mark,
            CASE WHEN y.first IS NOT NULL AND y.busy < t + 15000 OR y.busy = 0 THEN t + 30000 ELSE y.busy END AS busy,
            CASE WHEN y.first IS NOT NULL OR y.busy = 0 OR y.busy > t THEN 0
                WHEN y.quiet = 1 AND y.quiet_xid <= low THEN 2 ELSE 1 END AS quiet,
            CASE WHEN y.quiet = 0 THEN 9223372036854775807
                WHEN y.quiet_xid > high THEN high ELSE y.quiet_xid END AS quiet_xid
        FROM (
            SELECT z.*, (SELECT e.ord FROM ready e WHERE e.lane = z.id ORDER BY e.lane, e.ord LIMIT 1) AS first
            FROM lane z WHERE z.quiet < 2
        ) y
    ) x
    -- If a transaction takes it back meanwhile, that stands: its row is read again.
    WHERE l.id = x.id AND l.mark = x.old_mark AND l.quiet = x.old_quiet
        AND (x.mark, x.busy, x.quiet, x.quiet_xid) IS DISTINCT FROM (x.old_mark, x.old_busy, x.old_quiet, x.old_xid);
END $$;
