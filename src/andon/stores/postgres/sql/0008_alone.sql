-- Version 8: every record paid for an index that only a queue's first limit per key looked at. The tasks that
-- have a slot are found by their queue and state instead (functions/put_queue.sql). Besides, `create_one`
-- returns a row whose columns are not declared, which is in the functions alone.

DROP INDEX IF EXISTS task_active_key;
