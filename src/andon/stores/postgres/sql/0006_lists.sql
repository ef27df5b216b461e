-- Version 6: lists by name beside those of the tasks' own columns (`lifecycle.indexes.lists_of`): failures
-- by task type, tasks by their tags. A task without tags that runs well stands in none, and writes nothing. A
-- column of the task's name beside its state would have to be written with every task. What the tasks
-- of earlier versions stand in is entered after this (`listing`).

CREATE TABLE listed (
    list text COLLATE "C" NOT NULL, seq bigint NOT NULL, PRIMARY KEY (list, seq)
);

-- A record that does not decode any more does not tell which lists it stands in.
CREATE INDEX listed_seq ON listed (seq);
