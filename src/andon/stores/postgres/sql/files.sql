-- Files below a folder have paths from `folder/` to before `folder0`: 0 is the character after the slash.

-- name: put
SELECT {schema}.put_file($1, $2)

-- Of several that try at once, one gets a row.
-- name: create
INSERT INTO {schema}.file (path, piece, content) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING RETURNING piece

-- name: put_piece
INSERT INTO {schema}.file (path, piece, content) VALUES ($1, $2, $3)

-- name: finish
SELECT {schema}.finish_file($1, $2)

-- name: drop_unfinished
DELETE FROM {schema}.file WHERE path >= '~/' AND path < '~0' AND written_at < clock_timestamp() - interval '1 day'

-- name: last_piece
SELECT max(piece) FROM {schema}.file WHERE path = $1

-- name: piece
SELECT content FROM {schema}.file WHERE path = $1 AND piece = $2

-- Reads the sizes only, which stand in the rows; contents of more than 2 kB lie elsewhere.
-- name: held
SELECT coalesce(sum(octet_length(content)), 0)::bigint FROM {schema}.file WHERE path >= $1 || '/' AND path < $1 || '0'

-- name: files
SELECT substr(path, length($1) + 2) FROM {schema}.file
WHERE path >= $1 || '/' AND path < $1 || '0' AND piece = 0 AND position('/' IN substr(path, length($1) + 2)) = 0
ORDER BY path

-- From each folder to the next by the index: costs what there are folders, not files.
-- name: folders
WITH RECURSIVE step AS (
    (SELECT path FROM {schema}.file WHERE path >= $1 || '/' AND path < $1 || '0' ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (
        SELECT f.path FROM {schema}.file f
        WHERE f.path > s.path AND f.path < $1 || '0' AND f.path >= CASE
            WHEN position('/' IN substr(s.path, length($1) + 2)) > 0
            THEN $1 || '/' || split_part(substr(s.path, length($1) + 2), '/', 1) || '0' ELSE s.path END
        ORDER BY f.path LIMIT 1
    ) FROM step s WHERE s.path IS NOT NULL
)
SELECT split_part(substr(path, length($1) + 2), '/', 1) FROM step
WHERE position('/' IN substr(path, length($1) + 2)) > 0 ORDER BY path

-- name: delete
DELETE FROM {schema}.file WHERE path = ANY ($1)

-- name: clear
DELETE FROM {schema}.file WHERE path >= $1 || '/' AND path < $1 || '0'
