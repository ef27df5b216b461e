-- Schema 5: small values beside the tasks, by name (`contract/notes.py`). And edges stay to be read when
-- they hold nothing up any more, which is in the functions alone.

CREATE TABLE note (
    kind text COLLATE "C" NOT NULL, scope text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    value bytea NOT NULL, PRIMARY KEY (kind, scope, key)
);
