-- Schema 4: the functions are others: the end of a task that is discarded leaves no reservation of its
-- unique key. Those that earlier ends left go here; nobody was kept from such a key.

DELETE FROM unique_key u WHERE NOT EXISTS (SELECT FROM definition d WHERE d.id = u.id);
