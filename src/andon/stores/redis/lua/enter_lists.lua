-- Enter records of an older release in the lists by name that they stand in, each if it is still what
-- was read; one that has moved meanwhile was entered by its move. Where a run is in hand the entry
-- stays as it is, since it is that of the pending task.
local refused = refuse_strangers()
if refused then return refused end

local VERSION, CREATED, NAMES, ENTRY, ID = 1, 2, 3, 4, 5
for _, item in ipairs(A) do
  local task = P .. 'task:' .. item[ID]
  if fields_of(item[ID], 'v')[1] == item[VERSION] then
    for _, name in ipairs(item[NAMES]) do put_in(P .. 'list:' .. name, item[CREATED], item[ID]) end
    if item[ENTRY] ~= '' then call('HSET', task, 'x', item[ENTRY]) end
  end
end
flush()
return {now}
