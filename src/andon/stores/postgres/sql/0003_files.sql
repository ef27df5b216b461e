-- Schema 3: what runs log and leave behind, where no other place was named. A file is its pieces, each of
-- them 1 MiB but the last. A file that is being written lies below '~/' until it is whole.
CREATE TABLE file (
    path text COLLATE "C" NOT NULL, piece integer NOT NULL, content bytea NOT NULL,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (path, piece)
);
