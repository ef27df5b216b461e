-- What workers have code for (docs/rulings.md, R32). Whether a list covers a kind is decided by a
-- worker that has the list, once for each kind that turns up, and remembered.

-- Store what was decided for a list of code, which may be new; returns its id.
CREATE FUNCTION remember_code(p_told bigint, p_digest text, p_kinds text[], p_may boolean[]) RETURNS integer
LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := store_time(p_told); list integer;
BEGIN
    INSERT INTO code AS c (digest, seen_at) VALUES (p_digest, t)
    ON CONFLICT (digest) DO UPDATE SET seen_at = greatest(c.seen_at, excluded.seen_at) RETURNING c.id INTO list;
    INSERT INTO claimable (code, kind, may)
    SELECT list, n.id, u.may FROM unnest(p_kinds, p_may) u (kind, may) JOIN name n ON n.name = u.kind
    ORDER BY n.id ON CONFLICT DO NOTHING;
    RETURN list;
END $$;

-- Delete lists that no worker has used for a week, and the oldest beyond a number of them. A worker that
-- still has such a list decides again.
CREATE FUNCTION forget_codes(t bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    WITH gone AS (
        DELETE FROM code c WHERE c.seen_at < t - 604800000
            OR c.id IN (SELECT x.id FROM code x ORDER BY x.seen_at DESC, x.id DESC OFFSET 2000)
        RETURNING c.id
    ) DELETE FROM claimable m USING gone g WHERE m.code = g.id;
END $$;
