-- Dependencies. Everything here is idempotent.

-- One object of states by id: each row that a query returns is another step of it.
-- name: states_of
SELECT json_group_object(wanted.value, coalesce(
    (SELECT t.state FROM definition d JOIN task t USING (seq) WHERE d.id = wanted.value),
    (SELECT s.state FROM stub s WHERE s.id = wanted.value AND s.at > ?2)
)) FROM json_each(?1) wanted

-- name: link
INSERT INTO edge (parent, child, loads, any_end, settled) VALUES (?, ?, ?, ?, 0)
ON CONFLICT (parent, child) DO UPDATE SET settled = 0, loads = max(loads, excluded.loads)

-- name: satisfied_of
WITH wanted (child, parent) AS (VALUES (?, ?))
SELECT child, parent FROM wanted CROSS JOIN satisfied USING (child, parent) WHERE fails = 0

-- Such an edge keeps a parent whose result is loaded, lets a rerun of one that failed still satisfy, and
-- shows the dependents; there is none of a parent that was deleted.
-- name: link_ended
INSERT INTO edge (parent, child, loads, any_end, settled)
SELECT ?1, ?2, ?3, ?4, 1 WHERE EXISTS (SELECT 1 FROM definition WHERE id = ?1)
ON CONFLICT (parent, child) DO UPDATE SET loads = 1 WHERE excluded.loads > loads

-- name: restore_edge
INSERT INTO edge (parent, child, loads, any_end, settled) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (parent, child) DO UPDATE SET loads = ?3, any_end = ?4, settled = ?5

-- name: tell
UPDATE edge SET settled = 1 WHERE parent = ? AND child = ?

-- name: satisfy
INSERT INTO satisfied (child, parent) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: count_off
UPDATE fan_in SET remaining = remaining - 1 WHERE child = ?

-- One that failed the child satisfies it now.
-- name: forget_failing
DELETE FROM satisfied WHERE child = ? AND parent = ? AND fails

-- name: spare_again
UPDATE fan_in SET spare = spare + 1 WHERE child = ?

-- name: fail
INSERT INTO satisfied (child, parent, fails)
SELECT ?1, ?2, 1 WHERE EXISTS (SELECT 1 FROM fan_in WHERE child = ?1 AND spare IS NOT NULL)
ON CONFLICT DO NOTHING

-- name: spare_less
UPDATE fan_in SET spare = spare - 1 WHERE child = ?

-- name: fan_in
SELECT remaining, spare FROM fan_in WHERE child = ?

-- name: start_fan_in
INSERT INTO fan_in (child, remaining, spare) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: drop_fan_in
DELETE FROM fan_in WHERE child = ?

-- name: drop_satisfied
DELETE FROM satisfied WHERE child = ?

-- name: has_edges
SELECT max(settled = 0) FROM edge WHERE parent = ?

-- name: any_edges
SELECT EXISTS (SELECT 1 FROM edge)

-- name: edges
SELECT child, loads, any_end, settled FROM edge
WHERE parent = ? AND child > ? ORDER BY child LIMIT ?

-- name: release_edges
UPDATE edge SET settled = 1, loads = 0 WHERE parent = ? AND child = ?

-- name: unlink
DELETE FROM edge WHERE parent = ? AND child = ?

-- name: drop_edges
DELETE FROM edge WHERE parent = ?

-- name: mark_unsettled
INSERT INTO unsettled (parent) VALUES (?) ON CONFLICT DO NOTHING

-- name: clear_unsettled
DELETE FROM unsettled WHERE parent = ?1
AND NOT EXISTS (SELECT 1 FROM edge WHERE parent = ?1 AND settled = 0)

-- In this order of the tables: SQLite does not know which of them is small, and would look at every
-- ended task.
-- name: unsettled
SELECT u.parent, t.state FROM unsettled u CROSS JOIN definition d ON d.id = u.parent
CROSS JOIN task t ON t.seq = d.seq
WHERE t.state NOT IN ({{live_states}}) AND u.parent > ?
ORDER BY u.parent LIMIT ?

-- name: drop_unsettled
DELETE FROM unsettled WHERE parent = ?

-- name: put_off
INSERT INTO put_off (parent) VALUES (?) ON CONFLICT DO NOTHING

-- name: is_put_off
SELECT 1 FROM put_off WHERE parent = ?

-- name: due_again
UPDATE task SET timer = ?2 WHERE seq = (SELECT seq FROM definition WHERE id = ?1)

-- name: drop_put_off
DELETE FROM put_off WHERE parent = ?

-- name: holding
SELECT e.child FROM edge e LEFT JOIN definition d ON d.id = e.child LEFT JOIN task t USING (seq)
WHERE e.parent = ?1 AND (e.settled = 0 OR e.loads)
AND t.state IN ({{live_states}}) LIMIT 1
