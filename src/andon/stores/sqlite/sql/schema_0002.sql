-- Schema 2. Ready tasks stand in lanes by kind (name, version, open or not), so that what cannot be
-- claimed costs nothing per task. What schema 1 held becomes an open kind, which anybody may claim:
-- it does not tell versions.

-- A lane: the ready tasks of one kind in one place (queue and partition). While `level` is not
-- null the lane is awake, and nothing in it stands before (level, ord); it may well be empty. An
-- asleep lane is empty.
CREATE TABLE lane (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    level INTEGER,
    ord INTEGER,
    UNIQUE (place, kind)
);
CREATE INDEX lane_awake ON lane (place, level, ord, kind) WHERE level IS NOT NULL;

INSERT INTO lane (place, kind, level, ord)
SELECT r.lane, n.name || '?', min(r.level), min(r.ord) FROM ready r JOIN name n ON n.id = r.type
GROUP BY r.lane, n.name;

INSERT INTO lane (place, kind)
SELECT p.queue * (SELECT value FROM meta WHERE name = 'partitions') + p.partition, n.name || '?'
FROM parked p JOIN name n ON n.id = p.type WHERE true GROUP BY 1, 2
ON CONFLICT DO NOTHING;

-- What may be claimed, in claim order within its lane: level (minus the priority), then first in,
-- first out. What is too late to be claimed waits for its timer in the lane of the negative number.
-- `queue` is set beside a `key` only.
CREATE TABLE ready_2 (
    lane INTEGER NOT NULL,
    level INTEGER NOT NULL,
    ord INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    dead_at INTEGER,
    first_limit INTEGER,
    queue INTEGER,
    key TEXT,
    PRIMARY KEY (lane, level, ord, seq)
) WITHOUT ROWID;

INSERT INTO ready_2 (lane, level, ord, seq, dead_at, first_limit, queue, key)
SELECT l.id, r.level, r.ord, r.seq, r.dead_at, r.first_limit, iif(t.key IS NULL, NULL, t.queue), t.key
FROM ready r JOIN name n ON n.id = r.type
JOIN lane l ON l.place = r.lane AND l.kind = n.name || '?'
JOIN task t ON t.seq = r.seq;

DROP TABLE ready;
ALTER TABLE ready_2 RENAME TO ready;
CREATE INDEX ready_key ON ready (queue, key, level, ord, seq) WHERE key IS NOT NULL;

CREATE TABLE parked_2 (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    level INTEGER NOT NULL,
    ord INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    dead_at INTEGER,
    first_limit INTEGER,
    PRIMARY KEY (queue, key, level, ord, seq)
) WITHOUT ROWID;

INSERT INTO parked_2 (queue, key, level, ord, seq, lane, dead_at, first_limit)
SELECT p.queue, p.key, p.level, p.ord, p.seq, l.id, p.dead_at, p.first_limit
FROM parked p JOIN name n ON n.id = p.type
JOIN lane l ON l.kind = n.name || '?'
    AND l.place = p.queue * (SELECT value FROM meta WHERE name = 'partitions') + p.partition;

DROP TABLE parked;
ALTER TABLE parked_2 RENAME TO parked;

-- Keys of which more than one task is ready or active, to find those above a new limit.
CREATE INDEX admitted_many ON admitted (queue, n, key) WHERE n > 1;

-- Queues whose limit per key changed, until all of their tasks are where it says.
CREATE TABLE readmission (queue TEXT PRIMARY KEY) WITHOUT ROWID;

-- The daily history: how much was counted of a queue on a UTC day (days since 1970), by tally
-- (`lifecycle/daily.py`). Kept with every move, like `counter`.
CREATE TABLE daily (
    day INTEGER NOT NULL, queue INTEGER NOT NULL, tally TEXT NOT NULL, n INTEGER NOT NULL,
    PRIMARY KEY (day, queue, tally)
) WITHOUT ROWID;

-- What a deleted task's last run was, and what was reported of it.
ALTER TABLE stub ADD COLUMN run TEXT NOT NULL DEFAULT '';
ALTER TABLE stub ADD COLUMN report TEXT NOT NULL DEFAULT '';
