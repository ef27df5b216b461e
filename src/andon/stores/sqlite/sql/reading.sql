-- Reading. Run on the reader's connection, each call in one short read transaction.

-- name: record
SELECT d.seq, CAST(d.body AS BLOB), t.state, t.revision, t.run, t.fence, t.worker, t.token, t.claimed_at,
    t.lease_until, t.heartbeat_at, t.progress, t.message, CAST(t.body AS BLOB), r.body, d.id
FROM definition d JOIN task t USING (seq) LEFT JOIN result r USING (seq) WHERE d.id = ?

-- name: record_by_seq
SELECT d.seq, CAST(d.body AS BLOB), t.state, t.revision, t.run, t.fence, t.worker, t.token, t.claimed_at,
    t.lease_until, t.heartbeat_at, t.progress, t.message, CAST(t.body AS BLOB), r.body, d.id
FROM definition d JOIN task t USING (seq) LEFT JOIN result r USING (seq) WHERE d.seq = ?

-- name: by_seq
SELECT seq FROM task WHERE seq > ? ORDER BY seq LIMIT ?

-- name: by_seq_newest
SELECT seq FROM task WHERE seq < ? ORDER BY seq DESC LIMIT ?

-- name: by_state
SELECT seq FROM task WHERE queue = ? AND state = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: by_state_newest
SELECT seq FROM task WHERE queue = ? AND state = ? AND seq < ? ORDER BY seq DESC LIMIT ?

-- The states are named once more so that the index can be used, which has no others.
-- name: by_due
SELECT timer, seq FROM task INDEXED BY task_due
WHERE queue = ? AND state = ? AND state IN ({{waits_for_time}}) AND timer > ?
ORDER BY timer, seq LIMIT ?

-- The rest of those that are due at the same time: a comparison of both at once would walk them all.
-- name: by_same_due
SELECT timer, seq FROM task INDEXED BY task_due
WHERE queue = ? AND state = ? AND state IN ({{waits_for_time}}) AND timer = ? AND seq > ?
ORDER BY seq LIMIT ?

-- Its plus signs keep the walk on the index of ids: few begin so, and those are sorted.
-- name: by_id
SELECT seq FROM definition WHERE id >= ? AND id < ? AND +seq > ? ORDER BY +seq LIMIT ?

-- name: by_id_newest
SELECT seq FROM definition WHERE id >= ? AND id < ? AND +seq < ? ORDER BY +seq DESC LIMIT ?

-- How many ids begin so, up to a number.
-- name: count_begun
SELECT count(*) FROM (SELECT 1 FROM definition WHERE id >= ? AND id < ? LIMIT ?)

-- name: by_key
SELECT seq FROM task WHERE key = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: by_key_newest
SELECT seq FROM task WHERE key = ? AND seq < ? ORDER BY seq DESC LIMIT ?

-- name: by_group
SELECT seq FROM task WHERE "group" = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: by_group_newest
SELECT seq FROM task WHERE "group" = ? AND seq < ? ORDER BY seq DESC LIMIT ?

-- name: definitions_after
SELECT t.seq, t.state, CAST(d.body AS BLOB) FROM task t JOIN definition d USING (seq)
WHERE t.seq > ? ORDER BY t.seq LIMIT ?

-- name: by_list
SELECT seq FROM listed WHERE list = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: by_list_newest
SELECT seq FROM listed WHERE list = ? AND seq < ? ORDER BY seq DESC LIMIT ?

-- name: by_dead
SELECT seq FROM task WHERE dead IS NOT NULL AND seq > ? ORDER BY seq LIMIT ?

-- name: by_dead_newest
SELECT seq FROM task WHERE dead IS NOT NULL AND seq < ? ORDER BY seq DESC LIMIT ?

-- The counts but those of the daily history (`daily.sql`).
-- name: counters
SELECT n.name, c.what, c.n, n.id FROM name n CROSS JOIN counts c ON c.queue = n.id
WHERE c.what > '+:'

-- name: event
SELECT prev, body FROM event WHERE pos = ?

-- name: last_event
SELECT t.last, t.revision FROM definition d JOIN task t USING (seq) WHERE d.id = ?

-- name: events_after
SELECT pos, body FROM event WHERE pos > ? ORDER BY pos LIMIT ?

-- name: event_at
SELECT body FROM event WHERE pos = ?

-- name: end
SELECT s.seq, e.body FROM sqlite_sequence s LEFT JOIN event e ON e.pos = s.seq WHERE s.name = 'event'

-- States only: no other count begins with a letter.
-- name: entries
SELECT coalesce(sum(c.n), 0) FROM name n CROSS JOIN counts c ON c.queue = n.id WHERE c.what >= 'a'

-- name: counted_queues
SELECT n.id FROM name n WHERE EXISTS (SELECT 1 FROM counts c WHERE c.queue = n.id)

-- The event that deleted a task which was discarded at its end, then the event of that end.
-- name: discarded
SELECT e.body FROM (SELECT pos FROM stub WHERE id = ?1 AND at > ?2 AND pos IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM definition WHERE id = ?1)) s
JOIN event d ON d.pos = s.pos JOIN event e ON e.pos IN (d.pos, d.prev) ORDER BY e.pos

-- name: tombstone
SELECT state, run, report FROM stub WHERE id = ?1 AND at > ?2
AND NOT EXISTS (SELECT 1 FROM definition WHERE id = ?1)
