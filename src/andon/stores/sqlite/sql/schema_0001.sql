-- Schema 1. All times are ms since 1970 UTC. `body` columns are msgpack of the model's structs
-- (`andon tasks show` prints them); everything the store itself decides on is a column.
-- Integer keys inside; the client's id stands in one unique index. Keys are never used again
-- (AUTOINCREMENT), so that a stale key can never name another task.

CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- Queue and task-type names, each once.
CREATE TABLE name (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

-- What was submitted. Written once, apart from the hot row: a move never rewrites the arguments.
CREATE TABLE definition (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    body BLOB NOT NULL
);

-- Where a task stands. `body` is the status; while a claim is not folded into it yet, `revision`
-- is one more than the body's and `token` to `claimed_at` are the stamp (contract, rule 1).
CREATE TABLE task (
    seq INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    state TEXT NOT NULL,
    revision INTEGER NOT NULL,
    timer INTEGER,
    key TEXT,
    "group" TEXT,
    dead INTEGER,            -- 1: a dead letter
    last INTEGER,            -- newest event of this task (event.pos), chained by event.prev
    run TEXT,                -- run cell: the run in hand ...
    fence INTEGER NOT NULL,
    worker TEXT,
    token TEXT,
    claimed_at INTEGER,
    lease_until INTEGER,
    heartbeat_at INTEGER,
    progress INTEGER,
    message TEXT,            -- ... to here
    body BLOB NOT NULL
);
CREATE INDEX task_state ON task (queue, state, seq);
CREATE INDEX task_timer ON task (partition, timer) WHERE timer IS NOT NULL;
CREATE INDEX task_key ON task (key, seq) WHERE key IS NOT NULL;
CREATE INDEX task_group ON task ("group", seq) WHERE "group" IS NOT NULL;
CREATE INDEX task_dead ON task (seq) WHERE dead IS NOT NULL;

CREATE TABLE result (seq INTEGER PRIMARY KEY, body BLOB NOT NULL);

-- What may be claimed, in claim order: lane (queue and partition), level (minus the priority),
-- then first in, first out.
CREATE TABLE ready (
    lane INTEGER NOT NULL,
    level INTEGER NOT NULL,
    ord INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    type INTEGER NOT NULL,
    dead_at INTEGER,
    first_limit INTEGER,
    PRIMARY KEY (lane, level, ord, seq)
) WITHOUT ROWID;

-- Pending tasks held back by max_concurrent_per_key, outside the claim's way (contract, rule 7).
CREATE TABLE parked (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    level INTEGER NOT NULL,
    ord INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    type INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    dead_at INTEGER,
    first_limit INTEGER,
    PRIMARY KEY (queue, key, level, ord, seq)
) WITHOUT ROWID;

-- Tasks of a key that are ready or active.
CREATE TABLE admitted (
    queue INTEGER NOT NULL,
    key TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;

-- The event log. Positions only grow. An event outlives its record until it is trimmed; a record's
-- events outlive the trimming until the record goes.
CREATE TABLE event (
    pos INTEGER PRIMARY KEY AUTOINCREMENT,
    seq INTEGER NOT NULL,
    prev INTEGER,            -- the task's event before this one
    at INTEGER NOT NULL,
    body BLOB NOT NULL
);

-- One row per claim call, so that a repeated token finds its runs again.
CREATE TABLE claim (token TEXT PRIMARY KEY, at INTEGER NOT NULL, seqs TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX claim_at ON claim (at);

-- What is left of a deleted task for the submit window.
CREATE TABLE stub (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    write_id TEXT NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX stub_at ON stub (at);

CREATE TABLE unique_key (key TEXT PRIMARY KEY, id TEXT NOT NULL, until INTEGER) WITHOUT ROWID;

-- A dependency, in the parent's partition. A settled edge stays until it is unlinked.
CREATE TABLE edge (
    parent TEXT NOT NULL,
    child TEXT NOT NULL,
    loads INTEGER NOT NULL,
    any_end INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    PRIMARY KEY (parent, child)
) WITHOUT ROWID;

-- Ended parents whose edges are not all settled.
CREATE TABLE unsettled (parent TEXT PRIMARY KEY) WITHOUT ROWID;

-- Parents whose deletion was due while edges held them; due again when those let go.
CREATE TABLE put_off (parent TEXT PRIMARY KEY) WITHOUT ROWID;

-- Fan-in, in the child's partition: how many dependencies remain, and which were counted off.
CREATE TABLE fan_in (child TEXT PRIMARY KEY, remaining INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE satisfied (
    child TEXT NOT NULL, parent TEXT NOT NULL, PRIMARY KEY (child, parent)
) WITHOUT ROWID;

-- Counts per queue and state, kept with every move; state '+dead' counts dead letters, '+parked'
-- the parked.
CREATE TABLE counter (
    queue INTEGER NOT NULL, state TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (queue, state)
) WITHOUT ROWID;

CREATE TABLE queue (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE bucket (queue TEXT PRIMARY KEY, tokens REAL NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE type (name TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (name, version)) WITHOUT ROWID;
CREATE TABLE worker (id TEXT PRIMARY KEY, seen_at INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE setting (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
