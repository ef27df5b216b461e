-- One statement for each operation of the contract; see functions/.

-- name: name_ids
SELECT id, name FROM {schema}.name_ids($1)

-- name: find_names
SELECT id, name FROM {schema}.name WHERE name = ANY ($1)

-- name: all_names
SELECT id, name FROM {schema}.name

-- name: lane_ids
SELECT id, queue, partition, level, kind, type FROM {schema}.lane_ids($1, $2, $3, $4, $5)

-- name: create
SELECT * FROM {schema}.create_tasks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: create_alike
SELECT * FROM {schema}.create_alike($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
    $15::text::integer[], $16::text::bigint[], $17::text::bigint[], $18, $19, $20)

-- name: create_one
SELECT {schema}.create_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
    $18)

-- name: create_and_tell
CALL {schema}.create_and_tell($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
    $18, $19, $20, NULL, NULL, NULL, NULL, NULL)

-- name: create_together
SELECT * FROM {schema}.create_together($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: create_by_columns
SELECT * FROM {schema}.create_tasks($1, $2, $3, ARRAY(SELECT u::{schema}.new_task FROM unnest($4::text[],
    $5::bytea[], $6::integer[], $7::integer[], $8::text[], $9::bigint[], $10::bigint[],
    $11::bigint[], $12::text[], $13::text[], $14::boolean[], $15::bytea[], $16::bytea[], $17::integer[],
    $18::integer[], $19::bigint[], $20::bigint[], $21::bigint[], $22::integer[], $23::text[], $24::bigint[],
    $25::text[], $26::bigint[], $27::text[], $28::bigint[], $29::text[]) u), $30::integer[], $31::integer[],
    $32::text[], $33::integer[], $34::bigint[], $35::boolean, $36::boolean)

-- name: claim
SELECT * FROM {schema}.claim_tasks($1, $2, $3, $4, $5::text::integer[], $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)

-- name: remember_code
SELECT {schema}.remember_code($1, $2, $3, $4)

-- name: commit
SELECT * FROM {schema}.commit_changes($1, $2, $3, $4, $5, $6)

-- name: commit_ends
SELECT * FROM {schema}.commit_ends($1, $2, $3, $4, $5, $6, $7::text::bigint[], $8::text::bigint[],
    $9::text::bigint[], $10::text::bigint[], $11, $12, $13, $14, $15)

-- name: restore
SELECT * FROM {schema}.restore_tasks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
    $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30,
    $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48)

-- name: set_aside
SELECT {schema}.set_aside(u, {schema}.store_time($2)) FROM unnest($1::bigint[]) u

-- name: renew
SELECT * FROM {schema}.renew_runs($1, $2, $3, $4, $5, $6, $7, $8)

-- name: take_due
SELECT * FROM {schema}.take_due($1, $2, $3, $4, $5, $6, $7)

-- name: rearm
SELECT {schema}.rearm($1, $2, $3, $4)

-- name: link
SELECT * FROM {schema}.link_children($1, $2, $3, $4, $5, $6)

-- name: settle
SELECT remaining, due FROM {schema}.settle_edges($1, $2, $3, $4)

-- name: release_edges
SELECT {schema}.let_go_of_edges($1, $2, $3)

-- name: unlink
SELECT {schema}.unlink_edges($1, $2, $3)

-- name: put_queue
SELECT {schema}.put_queue($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: put_types
INSERT INTO {schema}.type (name, version, body) SELECT * FROM unnest($1::text[], $2::integer[], $3::bytea[])
ON CONFLICT (name, version) DO UPDATE SET body = excluded.body

-- name: put_worker
INSERT INTO {schema}.worker (id, seen_at, body) VALUES ($1, {schema}.store_time($2), $3)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, body = excluded.body

-- name: drop_worker
DELETE FROM {schema}.worker WHERE id = $1

-- name: put_notes
SELECT {schema}.put_notes($1, $2, $3, $4, $5)

-- name: new_setting
INSERT INTO {schema}.setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1

-- name: put_setting
UPDATE {schema}.setting SET value = $2 WHERE name = $1 AND value = $3 RETURNING 1

-- name: trim
SELECT {schema}.trim_log($1, $2, $3, $4, $5)

-- name: sleep
INSERT INTO {schema}.sleeper (instance, pid, kinds) VALUES ($1, pg_backend_pid(), $2)
ON CONFLICT (instance) DO UPDATE SET pid = excluded.pid, kinds = excluded.kinds

-- name: wake
DELETE FROM {schema}.sleeper WHERE instance = $1

-- name: notify
SELECT pg_notify(c, p) FROM unnest($1::text[], $2::text[]) u (c, p)

-- name: hear
SELECT pg_advisory_lock($1)

-- name: newest_pos
SELECT last_value - (NOT is_called)::integer FROM {schema}.event_pos
