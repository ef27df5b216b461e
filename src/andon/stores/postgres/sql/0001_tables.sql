-- Schema 1, tables. All times are ms since 1970 UTC. `body` columns are msgpack of the model's
-- structs; everything the store itself decides on is a column. Integer keys inside; the client's id
-- stands in one unique index. Keys are never used again, so that a stale key can name no other task.

CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);

-- Queue and task-type names, each once.
CREATE TABLE name (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE);

-- A line of ready tasks: queue, partition and level (minus the priority). Nothing ready stands
-- before `mark`: claims begin there instead of walking what was claimed before (decisions). It was
-- claimed from not long before `busy`, so the mark still has a way to go.
CREATE TABLE lane (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue integer NOT NULL,
    partition integer NOT NULL,
    level integer NOT NULL,
    mark bigint NOT NULL DEFAULT -9223372036854775808,
    busy bigint NOT NULL DEFAULT 0,
    UNIQUE (queue, partition, level)
) WITH (fillfactor = 50);

-- No timer of a partition stands before `mark`, nor will, unless the clock goes back: a look at the
-- timers begins there instead of walking those that moved or went. It may move on to `since` (less
-- what a clock may jump back) when every transaction before `before_xid` has ended: all later ones
-- set no timer before it.
CREATE TABLE timekept (
    partition integer PRIMARY KEY,
    mark bigint NOT NULL,
    since bigint NOT NULL,
    before_xid bigint NOT NULL
) WITH (fillfactor = 50);

-- A call that creates many takes one number, and those up to the next are its own: taking each, and
-- handing them from one table to the next, costs as much as an index (create_alike).
CREATE SEQUENCE task_seq INCREMENT BY 1024;
CREATE SEQUENCE event_pos;

-- What was submitted. Written once, apart from the hot row: a move never rewrites the arguments.
CREATE TABLE definition (seq bigint PRIMARY KEY, id text NOT NULL UNIQUE, body bytea NOT NULL);

-- Where a task stands. `body` is the status; while a claim is not folded into it yet, `revision`
-- is one more than the body's and `token` to `claimed_at` are the stamp (contract, rule 1).
-- Room is left in each page for renewals, which touch no index (HOT) and come again and again.
CREATE TABLE task (
    seq bigint PRIMARY KEY,
    partition integer NOT NULL,
    queue integer NOT NULL,
    kind integer NOT NULL,
    revision bigint NOT NULL,
    created bigint NOT NULL,
    timer bigint,
    fence bigint NOT NULL,
    last bigint,              -- newest event of this task (event.place), chained by event.prev
    prev bigint,              -- what an UPDATE put `last` in place of, for its RETURNING
    claimed_at bigint,
    lease_until bigint,
    heartbeat_at bigint,
    progress integer,
    dead boolean NOT NULL,    -- a dead letter
    asked boolean NOT NULL,   -- a cancel was requested of the run in hand
    state text NOT NULL,
    key text,
    "group" text,
    run text,
    worker text,
    token text,
    message text,
    body bytea NOT NULL,
    result bytea              -- written with the end; a large one is stored apart (TOAST)
) WITH (fillfactor = 85);
CREATE INDEX task_state ON task (queue, state, seq);
CREATE INDEX task_timer ON task (partition, timer) WHERE timer IS NOT NULL;
CREATE INDEX task_key ON task (key, seq) WHERE key IS NOT NULL;
CREATE INDEX task_group ON task ("group", seq) WHERE "group" IS NOT NULL;
CREATE INDEX task_dead ON task (seq) WHERE dead;

-- What may be claimed. Rows are inserted and deleted, never updated.
CREATE TABLE ready (
    lane integer NOT NULL,
    kind integer NOT NULL,
    ord bigint NOT NULL,
    seq bigint NOT NULL,
    dead_at bigint,           -- not to be handed out at or after this time
    first_limit bigint,       -- ms after the claim at which the run's first timer may fire
    run_no integer NOT NULL,
    frees text,               -- the unique key that does not hold while the task is active
    PRIMARY KEY (lane, ord, seq)
);

-- Pending tasks held back by max_concurrent_per_key, outside the claim's way (contract, rule 7).
CREATE TABLE parked (
    queue integer NOT NULL,
    key text NOT NULL,
    level integer NOT NULL,
    ord bigint NOT NULL,
    seq bigint NOT NULL,
    lane integer NOT NULL,
    kind integer NOT NULL,
    dead_at bigint,
    first_limit bigint,
    run_no integer NOT NULL,
    frees text,
    PRIMARY KEY (queue, key, level, ord, seq)
);

-- Tasks of a key that are ready or active; kept only in queues with a limit per key.
CREATE TABLE admitted (
    queue integer NOT NULL, key text NOT NULL, n bigint NOT NULL, PRIMARY KEY (queue, key)
) WITH (fillfactor = 50);

-- Keys whose parked tasks a user's transaction added; the timekeeper lets through what fits.
CREATE TABLE promotion (queue integer NOT NULL, key text NOT NULL);

-- The event log. `place` is the number of the transaction and, in its low 20 bits, the place in it
-- (see `place_of`). That orders what readers see: everything below the oldest transaction that still
-- writes is final; a sequence alone would lose events. The event of a claim has no body: its
-- columns say it all, so that a claim is one statement. The only index is not unique: a namespace
-- that was restored on a server with lower numbers may meet the same place again, in another task.
CREATE TABLE event (
    place bigint NOT NULL,
    pos bigint NOT NULL,      -- how many there were before it, for the log's bound
    seq bigint NOT NULL,
    prev bigint,              -- place of the task's event before this one
    at bigint NOT NULL,
    revision bigint,
    run_no integer,
    task text,
    source text,              -- set: set aside from this state; else, without a body: claimed
    worker text,
    run text,
    body bytea
);
CREATE INDEX event_place ON event (place);

-- One row per claim call, so that a repeated token finds its runs again.
CREATE TABLE claim (token text PRIMARY KEY, at bigint NOT NULL, seqs bigint[] NOT NULL);
CREATE INDEX claim_at ON claim (at);

-- What is left of a deleted task for the submit window.
CREATE TABLE stub (
    id text PRIMARY KEY, digest text NOT NULL, state text NOT NULL, writes text NOT NULL, at bigint NOT NULL
);
CREATE INDEX stub_at ON stub (at);

CREATE TABLE unique_key (key text PRIMARY KEY, id text NOT NULL, until bigint);

-- A dependency, in the parent's partition. A settled edge stays until it is unlinked.
CREATE TABLE edge (
    parent text NOT NULL,
    child text NOT NULL,
    loads boolean NOT NULL,
    any_end boolean NOT NULL,
    settled boolean NOT NULL,
    PRIMARY KEY (parent, child)
) WITH (fillfactor = 85);
CREATE INDEX edge_child ON edge (child);

-- Ended parents whose edges are not all settled.
CREATE TABLE unsettled (parent text PRIMARY KEY);

-- Parents whose deletion was due while edges held them; due again when those let go.
CREATE TABLE put_off (parent text PRIMARY KEY);

-- Fan-in, in the child's partition: how many dependencies remain, and which were counted off.
CREATE TABLE fan_in (child text PRIMARY KEY, remaining bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE satisfied (child text NOT NULL, parent text NOT NULL, PRIMARY KEY (child, parent));

-- Counts per queue and state ('+dead' counts dead letters, '+parked' the parked): appended to
-- `delta` with every move, so that nobody waits for another's count, and folded into `counter`.
-- A delta takes its `n` out of `was`, if there is one. Those of transactions before `counts_from`
-- (in `meta`) have all been folded: readers begin there instead of walking what is gone.
CREATE TABLE counter (
    queue integer NOT NULL, state text NOT NULL, n bigint NOT NULL, PRIMARY KEY (queue, state)
) WITH (fillfactor = 50);
CREATE TABLE delta (
    xid bigint NOT NULL DEFAULT (pg_current_xact_id()::text)::bigint,
    n bigint NOT NULL,
    queue integer NOT NULL,
    state text NOT NULL,
    was text
);
CREATE INDEX delta_xid ON delta (xid);

CREATE TABLE queue (
    id integer PRIMARY KEY,   -- name.id
    body bytea NOT NULL,
    paused boolean NOT NULL,
    max_concurrent integer,
    per_key integer,
    max_size integer,
    rate double precision,
    burst double precision
);
CREATE TABLE bucket (queue integer PRIMARY KEY, tokens double precision NOT NULL, at bigint NOT NULL)
    WITH (fillfactor = 50);
CREATE TABLE type (
    name text NOT NULL, version integer NOT NULL, body bytea NOT NULL, PRIMARY KEY (name, version)
);
CREATE TABLE worker (id text PRIMARY KEY, seen_at bigint NOT NULL, body bytea NOT NULL)
    WITH (fillfactor = 50);
CREATE TABLE setting (name text PRIMARY KEY, value bytea NOT NULL);

-- Processes that sleep until notified, and of what. A crash of the server empties it, and ends the
-- sessions of all who slept.
CREATE UNLOGGED TABLE sleeper (instance text PRIMARY KEY, pid integer NOT NULL, kinds text[] NOT NULL);

-- Claims that found nothing and have left word that they have room, one for a queue at the most,
-- until `until`: a lone task may be handed over to one as it is created (create_handed). `ear` is the
-- number of the channel where its process hears of it, and of a lock which that process's listening
-- session holds for as long as it lives; `held` is that of the lock on the token. A crash of the
-- server empties it; workers repeat their claims.
CREATE UNLOGGED TABLE standing (
    queue integer PRIMARY KEY,
    until bigint NOT NULL,    -- 0: stands no more
    number bigint NOT NULL,   -- of the claim's sending
    lease bigint NOT NULL,
    held bigint NOT NULL,
    ear bigint NOT NULL,
    token text NOT NULL,
    worker text NOT NULL,
    queues integer[] NOT NULL -- where it would have looked
) WITH (fillfactor = 50);

-- What is not folded into the counters yet.
CREATE VIEW unfolded AS
SELECT d.queue, x.state, x.n
FROM delta d CROSS JOIN LATERAL (VALUES (d.state, d.n), (d.was, -d.n)) x (state, n)
WHERE d.xid >= (SELECT m.value::bigint FROM meta m WHERE m.name = 'counts_from') AND x.state IS NOT NULL;

-- A record as it is read.
CREATE VIEW task_record AS
SELECT d.seq, d.body AS definition, t.state, t.revision, t.run, t.fence, t.worker, t.token,
    t.claimed_at, t.lease_until, t.heartbeat_at, t.progress, t.message, t.body AS status,
    t.result, d.id, t.last
FROM definition d JOIN task t USING (seq);

-- Dead rows cost the claims that walk over them: clean the small tables early and without pause,
-- and do not let vacuum sleep on the large ones. Thresholds are absolute where a table is meant to
-- stay small, relative where it grows.
ALTER TABLE ready SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.5);
ALTER TABLE delta SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE task SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1,
    autovacuum_analyze_scale_factor = 0.2);
ALTER TABLE event SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE claim SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
