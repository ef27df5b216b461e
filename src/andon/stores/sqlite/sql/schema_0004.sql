-- Schema 4. The daily history stands among the counts, so that a transaction that counts both writes
-- one page for them. A process of an older release, which counts elsewhere, is refused by each write.

-- Counts of a queue, kept with every move. `what` is a state; '+dead' and '+parked' for dead letters
-- and parked tasks; or a UTC day of the daily history and a tally of it (`lifecycle/daily.py`), as in
-- '+0020545 failed': the day (days since 1970) has seven digits, so that the newest comes last of
-- them, next to what else a move counts.
CREATE TABLE counts (
    queue INTEGER NOT NULL, what TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (queue, what)
) WITHOUT ROWID;

INSERT INTO counts (queue, what, n) SELECT queue, state, n FROM counter;
INSERT INTO counts (queue, what, n) SELECT queue, printf('+%07d %s', day, tally), n FROM daily;

DROP TABLE counter;
DROP TABLE daily;

-- Fan-in: how many more dependencies may fail the child, null if it needs them all; and whether one
-- that was counted satisfies it, or fails it.
ALTER TABLE fan_in ADD COLUMN spare INTEGER;
ALTER TABLE satisfied ADD COLUMN fails INTEGER NOT NULL DEFAULT 0;
