-- Set up one partition of a namespace, or tell how it was: "new", "ours" with schema, min_writer,
-- partitions and whether its tasks still have to be entered in the lists by name, or "strange" where
-- the keys belong to something else. A namespace of an older release is written in the new form from now on,
-- so processes that do not know it cannot write: of 2, which has no lists by name, or 3, whose numbers are
-- decimal.
local meta = P .. 'meta'
local kind = call('TYPE', meta).ok
if kind ~= 'none' and kind ~= 'hash' then return {now, 'strange'} end
local found = call('HMGET', meta, 'andon', 'schema', 'min_writer', 'partitions', 'unlisted')
if kind == 'hash' then
  if not found[1] then return {now, 'strange'} end
  if found[2] == A[2] and A[3] == '4' and (found[3] == '2' or found[3] == '3') then
    if found[3] == '2' then
      call('HSET', meta, 'unlisted', 1)
      found[5] = '1'
    end
    call('HSET', meta, 'min_writer', A[3])
    found[3] = A[3]
  end
  return {now, 'ours', found[2], found[3], found[4], found[5] or ''}
end
call('HSET', meta, 'andon', 'task store', 'id', A[1], 'schema', A[2], 'min_writer', A[3],
  'partitions', A[4], 'log_start', 0, 'stubs', 0)
return {now, 'new', A[2], A[3], A[4], ''}
