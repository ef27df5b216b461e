-- Schema 3.

-- Of a task that was discarded at its end: where the event of its deletion is, which has its result
-- (docs/rulings.md, R37).
ALTER TABLE stub ADD COLUMN pos INTEGER;
