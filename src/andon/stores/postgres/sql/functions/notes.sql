-- Compare and set notes, each by itself; NULL as a value deletes, and expects that there is none. Whether
-- each was written. In the order of their names, so that two calls wait for each other in no ring.
CREATE FUNCTION put_notes(
    p_kinds text[], p_scopes text[], p_keys text[], p_values bytea[], p_expects bytea[], OUT written boolean[]
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE r record;
BEGIN
    written := array_fill(false, ARRAY[cardinality(p_keys)]);
    FOR r IN SELECT u.* FROM unnest(p_kinds, p_scopes, p_keys, p_values, p_expects) WITH ORDINALITY
            u (kind, scope, key, value, expect, i) ORDER BY u.kind COLLATE "C", u.scope COLLATE "C", u.key COLLATE "C" LOOP
        IF r.expect IS NULL THEN
            IF r.value IS NULL THEN
                written[r.i] := NOT EXISTS (SELECT FROM note n
                    WHERE n.kind = r.kind AND n.scope = r.scope AND n.key = r.key);
            ELSE
                INSERT INTO note VALUES (r.kind, r.scope, r.key, r.value) ON CONFLICT DO NOTHING;
                written[r.i] := FOUND;
            END IF;
        ELSIF r.value IS NULL THEN
            DELETE FROM note n WHERE n.kind = r.kind AND n.scope = r.scope AND n.key = r.key AND n.value = r.expect;
            written[r.i] := FOUND;
        ELSE
            UPDATE note n SET value = r.value
            WHERE n.kind = r.kind AND n.scope = r.scope AND n.key = r.key AND n.value = r.expect;
            written[r.i] := FOUND;
        END IF;
    END LOOP;
END $$;
