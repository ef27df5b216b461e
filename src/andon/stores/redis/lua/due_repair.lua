-- Put right a list by due time, some entries at a time: what is in the list of the state and not here is
-- put in, or (A[4]) what is here and not in that state is taken out. Gives the position to go on from,
-- "0" after the last. What others write meanwhile they write to both lists, so nothing is missed.
local SOME = 200
local queue, state, position, sweeps = A[1], A[2], A[3], A[4]
local due = due_of(queue, state)
local page = call('ZSCAN', sweeps and due or list_of(queue, state), position, 'COUNT', SOME)
local found = page[2]
for i = 1, #found, 2 do
  local id = found[i]
  local fields = fields_of(id, 'st', 'x')
  if fields[1] == state then
    local x = entry_of(fields[2])
    call('ZADD', due, x and x[TIMER] or 0, id)
  else
    call('ZREM', due, id)
  end
end
return {now, page[1]}
