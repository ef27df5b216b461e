-- Renewals: the run cell only; no index, no revision, no event (docs/rulings.md, R4). Verdicts: ok,
-- cancel, lost.
CREATE FUNCTION renew_runs(
    p_told bigint, p_me text, p_ids text[], p_runs text[], p_leases bigint[], p_beats boolean[],
    p_progress integer[], p_messages text[],
    OUT told bigint, OUT wanted text[], OUT verdicts text[]
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE t bigint := store_time(p_told); r record;
BEGIN
    told := t;
    verdicts := array_fill('lost'::text, ARRAY[cardinality(p_ids)]);
    FOR r IN
        WITH u AS MATERIALIZED (  -- for the planner, see `commit_ends`
            SELECT d.seq, u.* FROM (
                SELECT x.* FROM unnest(p_ids, p_runs, p_leases, p_beats, p_progress, p_messages)
                    WITH ORDINALITY x (id, run, lease, beat, progress, message, i) LIMIT cardinality(p_ids)) u
            CROSS JOIN LATERAL (SELECT x.seq FROM definition x WHERE x.id = u.id OFFSET 0) d ORDER BY d.seq
        )
        UPDATE task k SET lease_until = greatest(k.lease_until, t + u.lease),
            heartbeat_at = CASE WHEN u.beat THEN t ELSE k.heartbeat_at END,
            progress = coalesce(u.progress, k.progress), message = coalesce(u.message, k.message)
        FROM u WHERE k.seq = ANY (ARRAY[u.seq]) AND k.state || '' = 'active' AND k.run = u.run
        RETURNING u.i, k.asked
    LOOP
        verdicts[r.i] := CASE WHEN r.asked THEN 'cancel' ELSE 'ok' END;
    END LOOP;
    wanted := sleepers(p_me);
END $$;
