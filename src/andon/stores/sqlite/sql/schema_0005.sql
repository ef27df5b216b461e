-- Schema 5: lists by name beside those of the tasks' own columns (`lifecycle.indexes.lists_of`): failures
-- by task type, tasks by their tags. A task without tags that runs well stands in none, and writes nothing. A
-- column of the task's name beside its state would have to be written with every task.
-- What the tasks of schema 4 stand in is entered after this (`listing`). A process of an older release
-- has to be started anew: it does not know the table, and what it writes would be missing from it.

CREATE TABLE listed (
    list TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (list, seq)
) WITHOUT ROWID;

-- A record that does not decode any more does not tell which lists it stands in.
CREATE INDEX listed_seq ON listed (seq);
