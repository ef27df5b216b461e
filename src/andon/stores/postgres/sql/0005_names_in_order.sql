-- Schema 5: settings are listed by how their names begin, in the order of their bytes. (And edges stay
-- to be read when they hold nothing up any more: functions alone.)

CREATE INDEX setting_in_order ON setting (name COLLATE "C");
