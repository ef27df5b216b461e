-- Per queue: name, parked, dead letters, the oldest ready task's time of waiting ("" if none), and
-- the count of each state in the order asked for. One look per queue and state, none per task.
local LEVEL = 4398046511104 -- 2^42: what one level of priority is worth in a score
local reply = {now}

local function oldest_of(queue)
  local oldest
  for _, name in ipairs(call('SMEMBERS', P .. 'lanes:' .. queue)) do
    local lane, from = lane_of(queue, name), '-inf'
    while true do
      local first = call('ZRANGEBYSCORE', lane, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      if #first == 0 then break end
      local level = math.floor(first[2] / LEVEL)
      local order = first[2] - level * LEVEL
      if not oldest or order < oldest then oldest = order end
      from = string.format('%.0f', (level + 1) * LEVEL)
    end
  end
  return oldest and int(oldest) or ''
end

for _, queue in ipairs(call('SMEMBERS', P .. 'queues')) do
  local row = {queue, tonumber(call('HGET', P .. 'parked', queue) or 0),
    call('ZCARD', P .. 'dead:' .. queue), oldest_of(queue)}
  for i, state in ipairs(A) do row[4 + i] = call('ZCARD', list_of(queue, state)) end
  reply[#reply + 1] = row
end
return reply
