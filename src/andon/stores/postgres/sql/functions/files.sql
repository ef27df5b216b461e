-- A file of one piece; one that was there is replaced in the same step.
CREATE FUNCTION put_file(called text, whole bytea) RETURNS void LANGUAGE plpgsql {settings} AS $$
BEGIN
    INSERT INTO file (path, piece, content) VALUES (called, 0, whole)
        ON CONFLICT (path, piece) DO UPDATE SET content = excluded.content, written_at = excluded.written_at;
    DELETE FROM file WHERE path = called AND piece > 0;
END $$;

-- Pieces that were written as a draft become the file; one that was there is replaced in the same step.
CREATE FUNCTION finish_file(draft text, called text) RETURNS void LANGUAGE plpgsql {settings} AS $$
BEGIN
    DELETE FROM file WHERE path = called;
    UPDATE file SET path = called WHERE path = draft;
END $$;
