-- Schema 3: of a task that was discarded at its end, the place of the event of its deletion, which
-- has its result (docs/rulings.md, R37).

ALTER TABLE stub ADD COLUMN place bigint;
