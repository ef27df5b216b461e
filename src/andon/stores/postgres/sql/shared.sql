-- What functions write to `task`, named there as `{{name}}`: the columns of a new record, of a claim and of a
-- move, and their values in the same order. `t` is the time of the write: a variable, or a column there.

-- A new record, `u`: what its moves leave as it is, and the rest.
-- name: new_columns
seq, partition, queue, created, key, "group", dead, body
-- name: new_values
u.seq, u.partition, u.queue, u.created, u.key, u."group", u.dead, u.status

-- Where a new record begins, if it is not created as a run.
-- name: begun_columns
state, revision, timer, fence, last, asked
-- name: begun_values
u.state, u.revision, {schema}.timer_from(t, u.timer), 0, u.place, false

-- The stamp of a claim, `c`, on a task, `k`.
-- name: stamp_columns
state, revision, timer, fence, last, prev, asked, run, worker, token, claimed_at, lease_until, heartbeat_at,
    progress, message
-- name: stamp_values
'active', k.revision + 1, {schema}.timer_from(t, least(t + c.lease, t + c.first_limit, c.dead_at)),
    greatest(k.fence + 1, t), c.place, k.last, false, c.run, c.worker, c.token, t, t + c.lease, t, 0, ''

-- What a move, `c`, sets, besides the place of its event. The end of a run is a move.
-- name: what_a_move_sets
state = c.state, revision = c.new_revision, timer = {schema}.timer_from(t, c.timer), dead = c.dead, asked = c.asked,
    body = c.status, run = c.run, worker = c.worker,
    result = CASE WHEN c.sets_result THEN c.result ELSE k.result END
