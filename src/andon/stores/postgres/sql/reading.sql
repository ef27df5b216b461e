-- Reading. Each call is one statement, so one snapshot.

-- name: now
SELECT {schema}.store_time($1)

-- name: opening
SELECT {schema}.store_time($1), (SELECT last_value - (NOT is_called)::integer FROM {schema}.event_pos)

-- name: meta
SELECT value FROM {schema}.meta WHERE name = $1

-- name: facts
SELECT {schema}.store_time($1), name, value FROM {schema}.meta

-- name: records
SELECT r.* FROM unnest($1::text[]) u CROSS JOIN LATERAL (
    SELECT x.* FROM {schema}.task_record x WHERE x.id = u OFFSET 0
) r

-- name: records_by_seq
SELECT r.* FROM unnest($1::bigint[]) u CROSS JOIN LATERAL (
    SELECT x.* FROM {schema}.task_record x WHERE x.seq = u OFFSET 0
) r

-- The oldest tasks that may be claimed in a queue: of the lanes with the oldest, the oldest.
-- name: oldest
SELECT r.* FROM (
    SELECT e.seq, e.ord FROM (
        SELECT l.id, l.mark FROM {schema}.name n JOIN {schema}.lane l ON l.queue = n.id CROSS JOIN LATERAL (
            SELECT e.seq, e.ord FROM {schema}.ready e WHERE e.lane = l.id AND e.ord >= l.mark
            ORDER BY e.lane, e.ord, e.seq LIMIT 1
        ) e WHERE n.name = $1 AND l.quiet < 2 ORDER BY e.ord, e.seq LIMIT $2
    ) l CROSS JOIN LATERAL (
        SELECT e.seq, e.ord FROM {schema}.ready e WHERE e.lane = l.id AND e.ord >= l.mark
        ORDER BY e.lane, e.ord, e.seq LIMIT $2
    ) e ORDER BY e.ord, e.seq LIMIT $2
) e JOIN {schema}.task_record r ON r.seq = ANY (ARRAY[e.seq]) ORDER BY e.ord, e.seq

-- Also run on connections of users: its arguments come once each, in their order.
-- name: states
WITH asked AS (SELECT x.* FROM unnest($1::text[]) WITH ORDINALITY x (u, i))
SELECT {schema}.state_of(u, {schema}.store_time($2)) FROM asked ORDER BY i

-- name: tombstones
SELECT s.state, s.run, s.report FROM unnest($1::text[]) WITH ORDINALITY u (id, i) LEFT JOIN LATERAL (
    SELECT x.* FROM {schema}.stub x
    WHERE x.id = u.id AND x.at > {schema}.store_time($2) - {{submit_window_ms}} OFFSET 0
) s ON true ORDER BY u.i

-- The last moves of deleted tasks, for those whose stub tells the place of the last: the deletion, and
-- by its `prev` the end before it.
-- name: discarded
SELECT e.body, e.revision, e.at, e.run_no, e.task, e.source, e.worker, e.run, s.id AS stub
FROM unnest($1::text[]) u CROSS JOIN LATERAL (
    SELECT x.id, x.place FROM {schema}.stub x
    WHERE x.id = u AND x.at > {schema}.store_time($2) - {{submit_window_ms}}
        AND NOT EXISTS (SELECT FROM {schema}.definition y WHERE y.id = u) OFFSET 0
) s CROSS JOIN LATERAL (
    SELECT x.seq, x.place, x.prev FROM {schema}.event x WHERE x.place = s.place OFFSET 0
) d CROSS JOIN LATERAL (
    SELECT x.* FROM {schema}.event x WHERE x.place = ANY (ARRAY[d.place, d.prev]) AND x.seq = d.seq OFFSET 0
) e
ORDER BY e.place

-- name: queue
SELECT q.body FROM {schema}.queue q JOIN {schema}.name n ON n.id = q.id WHERE n.name = $1

-- The newest moves of a task, newest first.
-- name: history
WITH RECURSIVE chain AS (
    SELECT e.*, 1 AS n FROM {schema}.definition d JOIN {schema}.task t ON t.seq = ANY (ARRAY[d.seq])
    JOIN {schema}.event e ON e.place = ANY (ARRAY[t.last]) AND e.seq = ANY (ARRAY[t.seq]) WHERE d.id = $1
    UNION ALL
    SELECT e.*, c.n + 1 FROM chain c JOIN {schema}.event e ON e.place = ANY (ARRAY[c.prev]) AND e.seq = c.seq
    WHERE c.n < $2
)
SELECT c.body, c.revision, c.at, c.run_no, c.task, c.source, c.worker, c.run,
    (SELECT t.revision FROM {schema}.definition d JOIN {schema}.task t ON t.seq = ANY (ARRAY[d.seq]) WHERE d.id = $1)
FROM chain c ORDER BY c.n

-- Events of transactions that are older than every one that still writes: nothing can appear among
-- them any more. The last row, without an event, has the log's start, and whether there are newer
-- ones that have to wait. Both look along the index, whatever is known of the table: the bound that
-- nobody can estimate is looked at outside, and the newest event is the one asked.
-- name: events
(SELECT n.body, n.revision, n.at, n.run_no, n.task, n.source, n.worker, n.run, n.place, false AS held
FROM (
    SELECT e.* FROM {schema}.event e
    WHERE e.place > greatest($1::bigint, (SELECT value::bigint FROM {schema}.meta WHERE name = 'log_start'))
    ORDER BY e.place LIMIT $2
) n
WHERE n.place < {schema}.place_final()
ORDER BY n.place)
UNION ALL
SELECT w.body, w.revision, w.at, w.run_no, w.task, w.source, w.worker, w.run,
    (SELECT value::bigint FROM {schema}.meta WHERE name = 'log_start'),
    coalesce((SELECT max(e.place) FROM {schema}.event e) >= {schema}.place_final(), false)
FROM (SELECT) one LEFT JOIN {schema}.event w ON w.place = $1

-- name: events_end
SELECT n.body, n.revision, n.at, n.run_no, n.task, n.source, n.worker, n.run, coalesce(n.place, 0) AS place,
    (SELECT value::bigint FROM {schema}.meta WHERE name = 'log_start') AS start
FROM (SELECT) one LEFT JOIN (
    SELECT e.* FROM {schema}.event e WHERE e.place < {schema}.place_final() ORDER BY e.place DESC LIMIT 1
) n ON true

-- name: stats
SELECT n.name, x.state, sum(x.n)::bigint FROM (
    SELECT queue, state, n FROM {schema}.counter UNION ALL SELECT queue, state, n FROM {schema}.unfolded
) x JOIN {schema}.name n ON n.id = x.queue GROUP BY 1, 2
UNION ALL
SELECT n.name, '+oldest', min(e.ord) FROM {schema}.lane l JOIN {schema}.name n ON n.id = l.queue
CROSS JOIN LATERAL (
    SELECT e.ord FROM {schema}.ready e WHERE e.lane = l.id AND e.ord >= l.mark ORDER BY e.lane, e.ord LIMIT 1
) e WHERE l.quiet < 2 GROUP BY 1

-- The daily history of a queue, $1, or of all, on the days $2: what is folded and what is not.
-- name: tallies
SELECT n.name, x.day, x.tally, sum(x.n)::bigint FROM (
    SELECT queue, day, tally, n FROM {schema}.daily WHERE day = ANY ($2::integer[])
    UNION ALL SELECT d.queue, d.day, d.tally, d.n FROM {schema}.delta d
    WHERE d.day = ANY ($2::integer[]) AND d.tally IS NOT NULL
        AND d.xid >= (SELECT m.value::bigint FROM {schema}.meta m WHERE m.name = 'counts_from')
) x JOIN {schema}.name n ON n.id = x.queue WHERE $1::text IS NULL OR n.name = $1 GROUP BY 1, 2, 3

-- Kinds of which something is ready, in the queues of $1, or in all if there are none.
-- name: ready_kinds
SELECT q.name, k.name, min(e.ord) FROM {schema}.lane l JOIN {schema}.name q ON q.id = l.queue
JOIN {schema}.name k ON k.id = l.kind CROSS JOIN LATERAL (
    SELECT e.ord FROM {schema}.ready e WHERE e.lane = l.id AND e.ord >= l.mark ORDER BY e.lane, e.ord LIMIT 1
) e WHERE l.quiet < 2 AND (cardinality($1::text[]) = 0 OR q.name = ANY ($1)) GROUP BY 1, 2 ORDER BY 1, 2

-- name: entries
SELECT coalesce(sum(n), 0)::bigint FROM (
    SELECT state, n FROM {schema}.counter UNION ALL SELECT state, n FROM {schema}.unfolded
) x WHERE state NOT LIKE '+%'

-- name: size
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'

-- name: settings
SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'fsync', 'synchronous_commit',
    'full_page_writes', 'synchronous_standby_names', 'wal_level')

-- name: standbys
SELECT coalesce(application_name, ''), coalesce(sync_state, '') FROM pg_stat_replication

-- name: dependents
SELECT u.i, e.* FROM unnest($1::text[], $2::text[]) WITH ORDINALITY u (parent, after, i)
CROSS JOIN LATERAL (
    SELECT x.parent, x.child, x.loads, x.any_end, x.settled FROM {schema}.edge x
    WHERE x.parent = u.parent AND x.child > u.after ORDER BY x.child LIMIT $3
) e ORDER BY u.i, e.child

-- name: unsettled
SELECT u.parent, t.state FROM {schema}.unsettled u CROSS JOIN LATERAL (
    SELECT x.seq FROM {schema}.definition x WHERE x.id = u.parent OFFSET 0
) d CROSS JOIN LATERAL (
    SELECT x.state FROM {schema}.task x WHERE x.seq = d.seq OFFSET 0
) t WHERE t.state NOT IN ({{live_states}}) LIMIT $1

-- Part of others: queues that are set up or have counts. Counts that are not folded yet may be many:
-- they are read once, and not for each name.
-- name: known_queue
q.id IS NOT NULL OR n.id IN (SELECT l.queue FROM {schema}.lane l)
    OR n.id IN (SELECT c.queue FROM {schema}.counter c) OR n.id IN (SELECT c.queue FROM {schema}.unfolded c)

-- name: queues
SELECT n.name, q.body FROM {schema}.name n LEFT JOIN {schema}.queue q ON q.id = n.id
WHERE {known_queue} ORDER BY n.name

-- name: types
SELECT body FROM {schema}.type ORDER BY name, version

-- name: workers
SELECT body, seen_at FROM {schema}.worker WHERE seen_at > {schema}.store_time($1) - {{worker_seen_ms}} ORDER BY id

-- name: notes
SELECT n.value FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY u (kind, scope, key, i)
LEFT JOIN {schema}.note n ON n.kind = u.kind AND n.scope = u.scope AND n.key = u.key ORDER BY u.i

-- name: list_notes
SELECT key, value FROM {schema}.note WHERE kind = $1 AND scope = $2 AND key > $3 ORDER BY key LIMIT $4

-- name: setting
SELECT value FROM {schema}.setting WHERE name = $1

-- All three at once: queues, types, and the settings named in $1.
-- name: configuration
SELECT c.kind, c.name, c.body FROM (
    SELECT 'queue' AS kind, n.name, 0 AS version, q.body
    FROM {schema}.name n LEFT JOIN {schema}.queue q ON q.id = n.id
    WHERE {known_queue}
    UNION ALL SELECT 'type', t.name, t.version, t.body FROM {schema}.type t
    UNION ALL SELECT 'setting', s.name, 0, s.value FROM {schema}.setting s WHERE s.name = ANY ($1)
) c ORDER BY c.kind, c.name, c.version

-- Pages. What an axis is asked for comes first, then after which key, last how many to look at.
-- name: by_seq
SELECT t.seq FROM {schema}.task t WHERE t.seq > $1 ORDER BY t.seq LIMIT $2

-- name: by_seq_newest
SELECT t.seq FROM {schema}.task t WHERE t.seq < $1 ORDER BY t.seq DESC LIMIT $2

-- Part of others: ids that begin with $1, a range of their index, which is walked in its order. No id
-- has a character beyond the one that ends the range. They are counted up to a number, and sorted if
-- they are few.
-- name: begun
SELECT d.seq FROM {schema}.definition d WHERE d.id >= $1::text AND d.id < $1::text || chr(127)
ORDER BY d.id

-- name: count_begun
SELECT count(*) FROM ({begun} LIMIT $2) x

-- name: by_id
SELECT x.seq FROM ({begun} OFFSET 0) x WHERE x.seq > $2 ORDER BY x.seq LIMIT $3

-- name: by_id_newest
SELECT x.seq FROM ({begun} OFFSET 0) x WHERE x.seq < $2 ORDER BY x.seq DESC LIMIT $3

-- name: by_key
SELECT t.seq FROM {schema}.task t WHERE t.key = $1 AND t.seq > $2 ORDER BY t.seq LIMIT $3

-- name: by_key_newest
SELECT t.seq FROM {schema}.task t WHERE t.key = $1 AND t.seq < $2 ORDER BY t.seq DESC LIMIT $3

-- name: by_group
SELECT t.seq FROM {schema}.task t WHERE t."group" = $1 AND t.seq > $2 ORDER BY t.seq LIMIT $3

-- name: by_group_newest
SELECT t.seq FROM {schema}.task t WHERE t."group" = $1 AND t.seq < $2 ORDER BY t.seq DESC LIMIT $3

-- name: by_list
SELECT x.seq FROM unnest($1::text[]) l CROSS JOIN LATERAL (
    SELECT e.seq FROM {schema}.listed e WHERE e.list = l AND e.seq > $2 ORDER BY e.list, e.seq LIMIT $3
) x ORDER BY 1 LIMIT $3

-- name: by_list_newest
SELECT x.seq FROM unnest($1::text[]) l CROSS JOIN LATERAL (
    SELECT e.seq FROM {schema}.listed e WHERE e.list = l AND e.seq < $2 ORDER BY e.list DESC, e.seq DESC LIMIT $3
) x ORDER BY 1 DESC LIMIT $3

-- name: by_dead
SELECT t.seq FROM {schema}.task t WHERE t.dead AND t.seq > $1 ORDER BY t.seq LIMIT $2

-- name: by_dead_newest
SELECT t.seq FROM {schema}.task t WHERE t.dead AND t.seq < $1 ORDER BY t.seq DESC LIMIT $2

-- Part of others: the queue of $1, or all that may hold tasks.
-- name: queues_asked
SELECT q.id FROM {schema}.name q
WHERE $1::text IS NULL AND EXISTS (SELECT FROM {schema}.lane l WHERE l.queue = q.id)
UNION SELECT DISTINCT c.queue FROM {schema}.counter c WHERE $1::text IS NULL
UNION SELECT DISTINCT c.queue FROM {schema}.unfolded c WHERE $1::text IS NULL
UNION SELECT n.id FROM {schema}.name n WHERE n.name = $1

-- name: by_state
SELECT x.seq FROM ({queues_asked}) q CROSS JOIN unnest($2::text[]) s CROSS JOIN LATERAL (
    SELECT t.seq FROM {schema}.task t WHERE t.queue = q.id AND t.state = s AND t.state <> '' AND t.seq > $3
    ORDER BY t.queue, t.state, t.seq LIMIT $4
) x ORDER BY 1 LIMIT $4

-- name: by_state_newest
SELECT x.seq FROM ({queues_asked}) q CROSS JOIN unnest($2::text[]) s CROSS JOIN LATERAL (
    SELECT t.seq FROM {schema}.task t WHERE t.queue = q.id AND t.state = s AND t.state <> '' AND t.seq < $3
    ORDER BY t.queue DESC, t.state DESC, t.seq DESC LIMIT $4
) x ORDER BY 1 DESC LIMIT $4

-- By due time: after $3 and, of those due at the same time, after key $4. The states are named once
-- more so that the index can be used, which has no others.
-- name: by_due
SELECT x.timer, x.seq FROM ({queues_asked}) q CROSS JOIN unnest($2::text[]) s CROSS JOIN LATERAL (
    SELECT t.timer, t.seq FROM {schema}.task t
    WHERE t.queue = q.id AND t.state = s AND t.state IN ({{waits_for_time}}) AND (t.timer, t.seq) > ($3, $4)
    ORDER BY t.queue, t.state, t.timer, t.seq LIMIT $5
) x ORDER BY 1, 2 LIMIT $5
