-- Since when the oldest ready task of a queue's lanes waits, of some lanes from a place on: that place
-- of the next ones ("" when all were looked at), then the time ("" if none). One look per lane and level.
local LEVEL = 4398046511104 -- 2^42: what one level of priority is worth in a score
local LANES_AT_ONCE = 200
local queue, from = A[1], A[2]
local only = only_kind(call('HGET', P .. 'ready', queue))
local heads = only and {head_of('000000000000', only)}
  or call('ZRANGE', heads_of(queue), from, from + LANES_AT_ONCE - 1)
local oldest
for _, head in ipairs(heads) do
  local lane, next_level = lane_of(queue, kind_in(head)), '-inf'
  while true do
    local first = call('ZRANGEBYSCORE', lane, next_level, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #first == 0 then break end
    local level = math.floor(first[2] / LEVEL)
    local order = first[2] - level * LEVEL
    if not oldest or order < oldest then oldest = order end
    next_level = string.format('%.0f', (level + 1) * LEVEL)
  end
end
return {now, #heads < LANES_AT_ONCE and '' or from + LANES_AT_ONCE, oldest and int(oldest) or ''}
