-- Schema 1, creating plain pending records that are alike, as a bulk submit does: of one queue, type,
-- priority and partition, without a timer, and nothing unique, no concurrency key, no dependencies.
-- What they have in common comes once, the rest as an array for each column; `create_tasks` takes
-- some twenty columns for each record.
--
-- `p_statuses` is empty when all have the status `p_status`, and `p_events` when their events are the
-- same but for the id, which stands between `p_head` and `p_tail`.
--
-- created: false if they are not as plain as that here (a known id, a stub, a queue with a bound);
-- then nothing is left of them, and `create_tasks` is to be asked.
CREATE FUNCTION create_alike(
    p_told bigint, p_me text, p_partition integer, p_queue integer, p_kind integer, p_group text, p_lane integer,
    p_first_limit bigint, p_low bigint, p_status bytea, p_head bytea, p_tail bytea, p_ids text[], p_definitions bytea[],
    p_created bigint[], p_ords bigint[], p_statuses bytea[], p_events bytea[],
    OUT told bigint, OUT pos bigint, OUT wanted text[], OUT created boolean
) LANGUAGE plpgsql VOLATILE {settings} AS $$
#variable_conflict use_column
DECLARE
    t bigint := write_time(p_told); first bigint := place_of(0); size integer := cardinality(p_ids);
    seqs bigint[]; posits bigint[]; written integer; odd boolean; lower boolean;
BEGIN
    told := t;
    SELECT array_agg(nextval('task_seq')), array_agg(nextval('event_pos')) INTO seqs, posits
    FROM generate_series(1, size);
    pos := posits[size];
    INSERT INTO definition (seq, id, body)
    SELECT u.seq, u.id, u.body FROM unnest(seqs, p_ids, p_definitions) u (seq, id, body) ORDER BY u.id
    ON CONFLICT (id) DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    -- After the definitions and the places in the log, as in `create_one`.
    SELECT EXISTS (SELECT FROM queue c WHERE c.id = p_queue AND c.max_size IS NOT NULL)
            OR EXISTS (SELECT FROM stub s WHERE s.at > t - 600000)
            AND EXISTS (SELECT FROM unnest(p_ids) u (id) JOIN stub s ON s.id = u.id AND s.at > t - 600000),
        EXISTS (SELECT FROM lane l WHERE l.id = p_lane AND l.mark > p_low),
        (SELECT array_agg(DISTINCT k) FROM sleeper s, unnest(s.kinds) k WHERE s.instance <> p_me)
    INTO odd, lower, wanted;
    created := written = size AND NOT odd;
    IF NOT created THEN
        DELETE FROM definition d WHERE d.seq = ANY (seqs);
        RETURN;
    END IF;
    INSERT INTO event (place, pos, seq, at, body)
    SELECT first + u.i - 1, u.pos, u.seq, t, coalesce(u.event, p_head || convert_to(u.id, 'UTF8') || p_tail)
    FROM unnest(posits, seqs, p_ids, p_events) WITH ORDINALITY u (pos, seq, id, event, i);
    INSERT INTO task (seq, partition, queue, kind, revision, created, fence, last, dead, asked, state, "group", body)
    SELECT u.seq, p_partition, p_queue, p_kind, 1, u.created, 0, first + u.i - 1, false, false, 'pending', p_group,
        coalesce(u.status, p_status)
    FROM unnest(seqs, p_created, p_statuses) WITH ORDINALITY u (seq, created, status, i);
    INSERT INTO ready (lane, kind, ord, seq, first_limit, run_no)
    SELECT p_lane, p_kind, u.ord, u.seq, p_first_limit, 0 FROM unnest(seqs, p_ords) u (seq, ord);
    INSERT INTO delta (queue, n, state) VALUES (p_queue, size, 'pending');
    IF lower THEN
        PERFORM lower_marks(ARRAY[p_lane], ARRAY[p_low]);
    END IF;
END $$;
