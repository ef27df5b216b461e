-- Look-ups by key that stay such where statistics call a table empty (docs/decisions/postgres-plans.md).

-- A record is read from its definition on: what is one of an array cannot be merged along two indexes,
-- so no plan walks through all tasks.
CREATE OR REPLACE VIEW task_record AS
SELECT d.seq, d.body AS definition, t.state, t.revision, t.run, t.fence, t.worker, t.token,
    t.claimed_at, t.lease_until, t.heartbeat_at, t.progress, t.message, t.body AS status,
    t.result, d.id, t.last
FROM definition d JOIN task t ON t.seq = ANY (ARRAY[d.seq]);

-- Of two indexes that cost the same, the planner takes the younger, and all cost the same in an empty
-- table. So those that could serve a look-up by key, badly, serve only who says that they are meant.
DROP INDEX task_state, stub_at, edge_child;
CREATE INDEX task_state ON task (queue, state, seq) WHERE state <> '';
CREATE INDEX stub_at ON stub (at) WHERE at > 0;
CREATE INDEX edge_child ON edge (child) WHERE child <> '';
