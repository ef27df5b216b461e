-- Ended tasks that still have unsettled edges, with the state of each; they go to the end of the list.
local refused = refuse_strangers()
if refused then return refused end

local reply = {now}
for _, id in ipairs(call('ZRANGE', P .. 'fanout', 0, A[1] - 1)) do
  local state = fields_of(id, 'st')[1]
  if state and not LIVE[state] then
    call('ZADD', P .. 'fanout', call('HINCRBY', P .. 'meta', 'turn', 1), id)
    reply[#reply + 1] = id
    reply[#reply + 1] = state
  else
    call('ZREM', P .. 'fanout', id)
  end
end
return reply
