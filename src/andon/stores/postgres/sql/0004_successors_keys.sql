-- Schema 4: the functions are others: a task that takes another's place takes over its reservation
-- of a unique key. Tables stay as they are.

SELECT 4;
