-- Indexes that were added after the first schema, each made where it is missing. They are no new
-- schema: the server keeps an index up to date, also for a release that does not know it.

-- Tasks that wait for a time, by that time. A submit that waits for nothing pays one comparison.
CREATE INDEX IF NOT EXISTS task_due ON task (queue, state, timer, seq)
    WHERE state IN ('scheduled', 'retry');
