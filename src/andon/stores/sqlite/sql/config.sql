-- The fleet and its configuration.

-- name: queues
SELECT body FROM queue ORDER BY name

-- name: queue
SELECT body FROM queue WHERE name = ?

-- name: put_queue
INSERT INTO queue (name, body) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET body = ?2

-- name: new_queue
INSERT INTO queue (name, body) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: name_id
SELECT id FROM name WHERE name = ?

-- name: name_of
SELECT name FROM name WHERE id = ?

-- name: new_name
INSERT INTO name (name) VALUES (?)

-- name: types
SELECT body FROM type ORDER BY name, version

-- name: put_type
INSERT INTO type (name, version, body) VALUES (?1, ?2, ?3)
ON CONFLICT (name, version) DO UPDATE SET body = ?3

-- name: workers
SELECT body FROM worker WHERE seen_at > ? ORDER BY id

-- name: put_worker
INSERT INTO worker (id, seen_at, body) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET seen_at = ?2, body = ?3

-- name: drop_worker
DELETE FROM worker WHERE id = ?

-- name: drop_silent_workers
DELETE FROM worker WHERE seen_at < ?

-- name: setting
SELECT value FROM setting WHERE name = ?

-- name: put_setting
INSERT INTO setting (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2

-- name: note
SELECT value FROM note WHERE kind = ? AND scope = ? AND key = ?

-- name: notes_of
WITH wanted (kind, scope, key) AS (VALUES (?, ?, ?))
SELECT kind, scope, key, value FROM wanted CROSS JOIN note USING (kind, scope, key)

-- name: put_note
INSERT INTO note (kind, scope, key, value) VALUES (?, ?, ?, ?)
ON CONFLICT (kind, scope, key) DO UPDATE SET value = excluded.value

-- name: drop_note
DELETE FROM note WHERE kind = ? AND scope = ? AND key = ?

-- name: notes
SELECT key, value FROM note WHERE kind = ? AND scope = ? AND key > ? ORDER BY key LIMIT ?

-- name: bucket
SELECT tokens, at FROM bucket WHERE queue = ?

-- name: put_bucket
INSERT INTO bucket (queue, tokens, at) VALUES (?1, ?2, ?3)
ON CONFLICT (queue) DO UPDATE SET tokens = ?2, at = ?3

-- name: meta
SELECT value FROM meta WHERE name = ?

-- name: put_meta
INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2

-- name: old_events
SELECT e.pos, e.at, t.seq IS NOT NULL FROM event e LEFT JOIN task t USING (seq)
WHERE e.pos > ? ORDER BY e.pos LIMIT ?

-- name: drop_event
DELETE FROM event WHERE pos = ?

-- name: drop_stubs
DELETE FROM stub WHERE id IN (SELECT id FROM stub WHERE at < ? LIMIT ?)

-- name: used_queues
SELECT n.name FROM name n WHERE EXISTS (SELECT 1 FROM counts c WHERE c.queue = n.id)
