-- The daily history. Every move adds to it in its own transaction: one row for a queue, day and
-- tally, however many moves that has.

-- name: add
INSERT INTO daily (day, queue, tally, n) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (day, queue, tally) DO UPDATE SET n = n + ?4

-- Of one queue: a step for each day, whatever other queues there are.
-- name: of_queue
SELECT n.name, d.day, d.tally, d.n FROM json_each(?1) days
JOIN name n ON n.name = ?2 CROSS JOIN daily d ON d.day = days.value AND d.queue = n.id

-- name: of_all
SELECT n.name, d.day, d.tally, d.n FROM daily d JOIN name n ON n.id = d.queue WHERE d.day >= ?

-- name: drop
DELETE FROM daily WHERE (day, queue, tally) IN
    (SELECT day, queue, tally FROM daily WHERE day < ? ORDER BY day LIMIT ?)
