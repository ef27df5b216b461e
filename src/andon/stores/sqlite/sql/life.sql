-- The life of a task: create, claim, renew, commit. Every statement is run inside the writer's
-- one transaction. Batches go through `rows.write`, which needs one `VALUES` with plain `?`.
-- Bodies are cast: one flipped bit makes a blob a text, which would fail before it can be set aside.

-- name: last_keys
SELECT name, seq FROM sqlite_sequence

-- name: what_others_wrote
SELECT (SELECT value FROM meta WHERE name = 'min_writer'),
    (SELECT at FROM event ORDER BY pos DESC LIMIT 1)

-- name: existing
SELECT d.id, d.seq, CAST(d.body AS BLOB), t.state FROM definition d JOIN task t USING (seq)
WHERE d.id IN (SELECT value FROM json_each(?1))

-- name: stubs
SELECT id, digest, state FROM stub WHERE id IN (SELECT value FROM json_each(?1)) AND at > ?2

-- name: any_stub
SELECT 1 FROM stub LIMIT 1

-- name: insert_definition
INSERT INTO definition (seq, id, body) VALUES (?, ?, ?)

-- name: insert_task
INSERT INTO task (seq, partition, queue, state, revision, timer, key, "group", dead, last, fence,
    body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)

-- name: restore_task
INSERT INTO task (seq, partition, queue, state, revision, timer, key, "group", dead, last, run,
    fence, worker, claimed_at, lease_until, heartbeat_at, progress, message, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_event
INSERT INTO event (pos, seq, prev, at, body) VALUES (?, ?, ?, ?, ?)

-- name: chain_event
INSERT INTO event (pos, seq, prev, at, body)
VALUES (?, ?, (SELECT last FROM task WHERE seq = ?), ?, ?)

-- name: count
INSERT INTO counts (queue, what, n) VALUES (?, ?, ?)
ON CONFLICT (queue, what) DO UPDATE SET n = n + excluded.n

-- name: counted
SELECT n FROM counts WHERE queue = ? AND what = ?

-- name: stamp
UPDATE task SET state = 'active', revision = revision + 1, timer = v.column2, run = v.column3,
    fence = v.column4, worker = v.column5, token = v.column6, claimed_at = v.column7,
    lease_until = v.column8, heartbeat_at = v.column7, progress = 0, message = '',
    last = v.column9
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)) AS v WHERE task.seq = v.column1

-- name: claimed
SELECT seqs FROM claim WHERE token = ?

-- name: insert_claim
INSERT INTO claim (token, at, seqs) VALUES (?1, ?2, ?3)
ON CONFLICT (token) DO UPDATE SET at = ?2, seqs = ?3

-- name: drop_claims
DELETE FROM claim WHERE at < ?

-- name: timer_now
UPDATE task SET timer = ?2 WHERE seq = ?1 AND (timer IS NULL OR timer > ?2)

-- name: run_of
SELECT t.seq, t.run, t.state, CAST(t.body AS BLOB) FROM definition d JOIN task t USING (seq) WHERE d.id = ?

-- name: renew
UPDATE task SET lease_until = max(lease_until, ?2), heartbeat_at = coalesce(?3, heartbeat_at),
    progress = coalesce(?4, progress), message = coalesce(?5, message)
WHERE seq = ?1

-- name: move
UPDATE task SET state = v.column3, revision = v.column4, timer = v.column5, dead = v.column6,
    body = v.column7, run = v.column8, worker = v.column9, last = v.column10
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS v
WHERE task.seq = v.column1 AND task.revision = v.column2

-- name: standing
SELECT revision, lease_until, state, partition, last FROM task WHERE seq = ?

-- name: seq_of
SELECT seq FROM definition WHERE id = ?

-- name: enter_list
INSERT INTO listed (list, seq) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: leave_list
DELETE FROM listed WHERE list = ? AND seq = ?

-- name: leave_lists
DELETE FROM listed WHERE seq = ?

-- name: put_result
INSERT INTO result (seq, body) VALUES (?, ?)
ON CONFLICT (seq) DO UPDATE SET body = excluded.body

-- name: drop_result
DELETE FROM result WHERE seq = ?

-- name: drop_task
DELETE FROM task WHERE seq = ?

-- name: drop_definition
DELETE FROM definition WHERE seq = ?

-- name: put_stub
INSERT INTO stub (id, digest, state, write_id, at, run, report, pos) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (id) DO UPDATE SET digest = ?2, state = ?3, write_id = ?4, at = ?5, run = ?6,
    report = ?7

-- name: stub_write_id
SELECT write_id FROM stub WHERE id = ? AND at > ?

-- name: key_holder
SELECT u.id, u.until, t.state FROM unique_key u LEFT JOIN definition d ON d.id = u.id
LEFT JOIN task t ON t.seq = d.seq WHERE u.key = ?

-- name: hold_key
INSERT INTO unique_key (key, id, until) VALUES (?1, ?2, ?3)
ON CONFLICT (key) DO UPDATE SET id = ?2, until = ?3

-- name: free_key
DELETE FROM unique_key WHERE key = ? AND id = ?

-- name: oldest_pending
SELECT d.id FROM task t CROSS JOIN definition d USING (seq)
WHERE t.queue = ? AND t.state = 'pending' ORDER BY t.seq LIMIT ?

-- name: due
SELECT seq, state, lease_until FROM task WHERE partition = ? AND timer <= ? ORDER BY timer LIMIT ?

-- name: set_timer
UPDATE task SET timer = ?2 WHERE seq = ?1

-- name: next_timer
SELECT min(timer) FROM task WHERE partition = ? AND timer > ?

-- name: rearm
UPDATE task SET timer = ?2 WHERE seq = (SELECT seq FROM definition WHERE id = ?1) AND timer = ?3

-- name: set_aside
UPDATE task SET state = 'unknown', revision = revision + 1, timer = NULL, dead = NULL, last = ?2,
    run = NULL, worker = NULL WHERE seq = ?1

-- name: queue_place
SELECT t.queue, n.name, t.state, t.partition, t.key, t.dead, t.last, t.revision, d.id
FROM task t JOIN definition d USING (seq) JOIN name n ON n.id = t.queue WHERE t.seq = ?

-- name: first_timer
SELECT min(timer) FROM task WHERE partition = ? AND timer IS NOT NULL
