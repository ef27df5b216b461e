-- The daily history: how much was counted of a queue on a UTC day (days since 1970), by tally
-- (`lifecycle/daily.py`). Like the counts it is appended to `delta` with every move, on the row of
-- the move where it has one, and folded by the timekeeper: no move waits for another's count.
CREATE TABLE daily (
    day integer NOT NULL, queue integer NOT NULL, tally text NOT NULL, n bigint NOT NULL,
    PRIMARY KEY (day, queue, tally)
) WITH (fillfactor = 50);

-- A row of the history alone has no state.
ALTER TABLE delta ADD COLUMN day integer, ADD COLUMN tally text, ALTER COLUMN state DROP NOT NULL;
