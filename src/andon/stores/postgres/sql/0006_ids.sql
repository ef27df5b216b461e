-- Version 6: ids are ordered by their bytes, so that those which begin alike stand together in their one
-- index, and their list is a range of it. In the order of the database's language they need not, and
-- comparing in it costs more. The index is made anew, the table is not. A view or function of somebody
-- else's that reads `task_record` has to be dropped before, and made again.

DROP FUNCTION IF EXISTS take_due;
DROP VIEW task_record;
ALTER TABLE definition ALTER COLUMN id TYPE text COLLATE "C";

-- A record is read from its definition on: what is one of an array cannot be merged along two indexes,
-- so no plan walks through all tasks (0004_records).
CREATE VIEW task_record AS
SELECT d.seq, d.body AS definition, t.state, t.revision, t.run, t.fence, t.worker, t.token,
    t.claimed_at, t.lease_until, t.heartbeat_at, t.progress, t.message, t.body AS status,
    t.result, d.id, t.last
FROM definition d JOIN task t ON t.seq = ANY (ARRAY[d.seq]);
