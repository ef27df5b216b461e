-- Schema 2: ready tasks stand in lines by kind, that is by what decides which workers may claim them
-- (docs/rulings.md, R32), so that a line which nobody here may claim costs a claim nothing. What
-- was ready before is sorted into these lines after this (`sorting`), for its kind is told by its
-- record alone.

CREATE TABLE unsorted AS
SELECT t.queue, l.partition, l.level, e.ord, e.seq, e.dead_at, e.first_limit, e.run_no, e.frees, t.key, false AS is_parked
FROM ready e JOIN lane l ON l.id = e.lane JOIN task t ON t.seq = e.seq
UNION ALL SELECT p.queue, l.partition, p.level, p.ord, p.seq, p.dead_at, p.first_limit, p.run_no, p.frees, p.key, true
FROM parked p JOIN lane l ON l.id = p.lane;
ALTER TABLE unsorted ADD PRIMARY KEY (seq);
TRUNCATE ready, parked;
DELETE FROM lane;

-- `kind` and `type` are names: of the kind, and of its task type, which a worker's room is counted by.
-- Rows are not deleted any more, because processes remember their ids. A lane that has long been empty falls
-- quiet instead: 1 while transactions before `quiet_xid` may still enter something, 2 when nothing can be
-- in it; then no claim looks at it. `busy`: not to fall quiet before this time; 0 if nobody has looked.
ALTER TABLE lane
    ADD COLUMN kind integer NOT NULL, ADD COLUMN type integer NOT NULL,
    ADD COLUMN quiet smallint NOT NULL DEFAULT 0,
    ADD COLUMN quiet_xid bigint NOT NULL DEFAULT 0,
    DROP CONSTRAINT lane_queue_partition_level_key,
    ADD UNIQUE (queue, partition, level, kind);
CREATE INDEX lane_looked_at ON lane (queue, partition, level) WHERE quiet < 2;

-- The key is told for those that have one, so that a limit set on keys finds them.
ALTER TABLE ready DROP COLUMN kind, ADD COLUMN key text;
CREATE INDEX ready_key ON ready (lane, key) WHERE key IS NOT NULL;
CREATE INDEX ready_dead_at ON ready (dead_at) WHERE dead_at IS NOT NULL;
ALTER TABLE parked DROP COLUMN kind;
ALTER TABLE task DROP COLUMN kind;

-- Tasks that have a slot of their key: few, unlike those that once had.
CREATE INDEX task_active_key ON task (queue, key) WHERE key IS NOT NULL AND state = 'active';

-- What workers have code for, by the digest of the list: which kinds it covers was decided by a worker
-- the first time that one turned up, and is remembered here.
CREATE TABLE code (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text NOT NULL UNIQUE, seen_at bigint NOT NULL
);
CREATE TABLE claimable (
    code integer NOT NULL, kind integer NOT NULL, may boolean NOT NULL, PRIMARY KEY (code, kind)
);

-- The code of the claim that stands (0: it may claim everything).
TRUNCATE standing;
ALTER TABLE standing ADD COLUMN code integer NOT NULL;

-- Of a deleted task: its last run, and what that reported (docs/rulings.md, R33).
ALTER TABLE stub ADD COLUMN run text NOT NULL DEFAULT '', ADD COLUMN report text NOT NULL DEFAULT '';

INSERT INTO meta (name, value) VALUES ('lanes_kept', '0'), ('clock_offset', '0') ON CONFLICT DO NOTHING;
