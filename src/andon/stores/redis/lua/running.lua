-- How many runs a queue has in this partition, then how many of each key asked for.
local queue = A[1]
local reply = {now, call('ZCARD', list_of(queue, 'active'))}
for i, key in ipairs(A[2]) do
  reply[2 + i] = tonumber(call('HGET', P .. 'running:' .. queue, key) or 0)
end
return reply
