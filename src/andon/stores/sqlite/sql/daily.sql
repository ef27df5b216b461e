-- The daily history, which stands among the counts: '+', the day, and the tally. Moves add to it as
-- they count their states (`life.sql`). No state and no other count begins with '+' and a digit.

-- Of one queue: from a day on, whatever other queues there are.
-- name: of_queue
SELECT n.name, CAST(substr(c.what, 2, 7) AS INTEGER), substr(c.what, 10), c.n
FROM name n CROSS JOIN counts c ON c.queue = n.id
WHERE n.name = ? AND c.what >= ? AND c.what < '+:'

-- name: of_all
SELECT n.name, CAST(substr(c.what, 2, 7) AS INTEGER), substr(c.what, 10), c.n
FROM name n CROSS JOIN counts c ON c.queue = n.id
WHERE c.what >= ? AND c.what < '+:'

-- One look-up for each known queue.
-- name: drop
DELETE FROM counts WHERE (queue, what) IN (
    SELECT c.queue, c.what FROM name n CROSS JOIN counts c ON c.queue = n.id
    WHERE c.what >= '+' AND c.what < ? LIMIT ?
)
