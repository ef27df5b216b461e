-- Schema 4: fan-in of children that need some of their dependencies. How many more may fail the child,
-- null if it needs them all; and whether a dependency that was counted satisfies it, or fails it.

ALTER TABLE fan_in ADD COLUMN spare bigint;
ALTER TABLE satisfied ADD COLUMN fails boolean NOT NULL DEFAULT false;
