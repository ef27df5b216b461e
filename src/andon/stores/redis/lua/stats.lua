-- Of each queue: parked, dead letters, and the count of each state in the order asked for. One look
-- per queue and state, none per task.
local queues, states = A[1], A[2]
local reply = {now}
for i, queue in ipairs(queues) do
  local row = {tonumber(call('HGET', P .. 'parked', queue) or 0), call('ZCARD', P .. 'dead:' .. queue)}
  for j, state in ipairs(states) do row[2 + j] = call('ZCARD', list_of(queue, state)) end
  reply[i + 1] = row
end
return reply
