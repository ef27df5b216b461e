-- What was added after the first schema and is no new one, each made where it is missing: indexes, which
-- every release keeps up to date, also one that does not know them, and tables that an older release
-- need not know to do what it does.

-- Tasks that wait for a time, by that time. A submit that waits for nothing pays one comparison.
CREATE INDEX IF NOT EXISTS task_due ON task (queue, state, timer, seq)
    WHERE state IN ('scheduled', 'retry');

-- Small values beside the tasks, by name (`contract/notes.py`).
CREATE TABLE IF NOT EXISTS note (
    kind TEXT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (kind, scope, key)
) WITHOUT ROWID;
