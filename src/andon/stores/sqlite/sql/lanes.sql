-- Lanes: where ready tasks stand, by place (queue and partition) and kind.

-- name: find
SELECT id FROM lane WHERE place = ? AND kind = ?

-- name: add
INSERT INTO lane (place, kind) VALUES (?, ?)

-- name: awake
SELECT id, kind, level, ord FROM lane
WHERE place = ? AND level IS NOT NULL ORDER BY level, ord

-- Places with a lane awake, one step each: never a scan of lanes.
-- name: awake_places
WITH RECURSIVE step (place) AS (
    SELECT min(place) FROM lane WHERE level IS NOT NULL
    UNION ALL
    SELECT (SELECT min(place) FROM lane WHERE level IS NOT NULL AND place > step.place)
    FROM step WHERE place IS NOT NULL
)
SELECT place FROM step WHERE place IS NOT NULL

-- name: wake
UPDATE lane SET level = ?2, ord = ?3
WHERE id = ?1 AND (level IS NULL OR (level, ord) > (?2, ?3))

-- name: raise_bound
UPDATE lane SET level = ?, ord = ? WHERE id = ?

-- name: sleep
UPDATE lane SET level = NULL, ord = NULL WHERE id = ?

-- name: first
SELECT level, ord, seq FROM ready WHERE lane = ? ORDER BY level, ord, seq LIMIT 1

-- name: first_after
SELECT level, ord, seq FROM ready WHERE lane = ? AND (level, ord, seq) > (?, ?, ?)
ORDER BY level, ord, seq LIMIT 1

-- name: candidates
SELECT r.level, r.ord, r.seq, r.dead_at, r.first_limit, t.fence, t.last,
    CAST(t.body AS BLOB), CAST(d.body AS BLOB)
FROM ready r JOIN task t USING (seq) JOIN definition d USING (seq)
WHERE r.lane = ? ORDER BY r.level, r.ord, r.seq LIMIT ?

-- name: candidates_between
SELECT r.level, r.ord, r.seq, r.dead_at, r.first_limit, t.fence, t.last,
    CAST(t.body AS BLOB), CAST(d.body AS BLOB)
FROM ready r JOIN task t USING (seq) JOIN definition d USING (seq)
WHERE r.lane = ?1 AND (r.level, r.ord, r.seq) > (?2, ?3, ?4)
    AND (r.level, r.ord, r.seq) <= (?5, ?6, ?7)
ORDER BY r.level, r.ord, r.seq LIMIT ?8

-- name: put_aside
UPDATE ready SET lane = -lane WHERE lane = ? AND level = ? AND ord = ? AND seq = ?

-- name: insert_ready
INSERT INTO ready (lane, level, ord, seq, dead_at, first_limit) VALUES (?, ?, ?, ?, ?, ?)

-- name: insert_keyed
INSERT INTO ready (lane, level, ord, seq, dead_at, first_limit, queue, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_ready
DELETE FROM ready WHERE lane = ? AND level = ? AND ord = ? AND seq = ?

-- name: delete_ready_to
DELETE FROM ready WHERE lane = ? AND (level, ord, seq) <= (?, ?, ?)

-- In whatever lane of the place: too late to be claimed, or of the open kind that schema 1 became.
-- name: delete_ready_elsewhere
DELETE FROM ready WHERE level = ?2 AND ord = ?3 AND seq = ?4
AND lane IN (SELECT id FROM lane WHERE place = ?1 UNION ALL SELECT -id FROM lane WHERE place = ?1)

-- name: delete_ready_of
DELETE FROM ready WHERE seq = ?2
AND lane IN (SELECT id FROM lane WHERE place = ?1 UNION ALL SELECT -id FROM lane WHERE place = ?1)

-- name: insert_parked
INSERT INTO parked (queue, key, level, ord, seq, lane, dead_at, first_limit)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_parked
DELETE FROM parked WHERE queue = ? AND key = ? AND level = ? AND ord = ? AND seq = ?

-- name: delete_parked_of
DELETE FROM parked WHERE queue = ? AND key = ? AND seq = ?

-- name: first_parked
SELECT level, ord, seq, lane, dead_at, first_limit FROM parked
WHERE queue = ? AND key = ? ORDER BY level, ord, seq LIMIT ?

-- name: next_parked_key
SELECT min(key) FROM parked WHERE queue = ? AND key > ?

-- The last of a key in order, of those that may be claimed.
-- name: worst_ready
SELECT lane, level, ord, seq, dead_at, first_limit FROM ready
WHERE queue = ? AND key = ? AND lane > 0 ORDER BY level DESC, ord DESC, seq DESC LIMIT ?

-- name: keys_above
SELECT n, key FROM admitted
WHERE queue = ?1 AND n > 1 AND n > ?2 AND (n, key) < (?3, ?4) ORDER BY n DESC, key DESC LIMIT ?5

-- name: admitted
SELECT n FROM admitted WHERE queue = ? AND key = ?

-- name: admit
INSERT INTO admitted (queue, key, n) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, key) DO UPDATE SET n = n + ?3

-- name: admitted_none
DELETE FROM admitted WHERE queue = ? AND key = ? AND n <= 0

-- name: readmit
INSERT INTO readmission (queue) VALUES (?) ON CONFLICT DO NOTHING

-- name: readmissions
SELECT queue FROM readmission

-- name: readmitted
DELETE FROM readmission WHERE queue = ?

-- The first task of each level of each lane that may hold some, of all places or from one to
-- another: a few steps for each lane, however many tasks stand in it.
-- name: heads
WITH RECURSIVE step (lane, place, kind, level) AS (
    SELECT id, place, kind, (SELECT min(r.level) FROM ready r WHERE r.lane = lane.id)
    FROM lane WHERE level IS NOT NULL AND place BETWEEN ? AND ?
    UNION ALL
    SELECT lane, place, kind,
        (SELECT min(r.level) FROM ready r WHERE r.lane = step.lane AND r.level > step.level)
    FROM step WHERE level IS NOT NULL
)
SELECT place, kind, min((SELECT r.ord FROM ready r
    WHERE r.lane = step.lane AND r.level = step.level ORDER BY r.ord LIMIT 1))
FROM step WHERE level IS NOT NULL GROUP BY place, kind
