-- Set up one partition of a namespace, or tell how it was: "new", "ours" with schema, min_writer
-- and partitions, or "strange" where the keys are somebody else's.
local meta = P .. 'meta'
local kind = call('TYPE', meta).ok
if kind ~= 'none' and kind ~= 'hash' then return {now, 'strange'} end
local found = call('HMGET', meta, 'andon', 'schema', 'min_writer', 'partitions')
if kind == 'hash' then
  if not found[1] then return {now, 'strange'} end
  return {now, 'ours', found[2], found[3], found[4]}
end
call('HSET', meta, 'andon', 'task store', 'id', A[1], 'schema', A[2], 'min_writer', A[3],
  'partitions', A[4], 'log_start', 0, 'stubs', 0)
return {now, 'new', A[2], A[3], A[4]}
