-- Version 7: records that depend on one another are created together, by a function that is new
-- (functions/create_together.sql). No table changes, and a script is at least one statement.
SELECT;
