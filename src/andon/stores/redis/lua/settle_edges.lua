-- Mark edges of parents here as settled. Those that were let go keep no result any more, either. A parent
-- whose deletion waited only for these edges may be deleted. Idempotent.
local refused = refuse_strangers()
if refused then return refused end

local LOADS, SETTLED = 1, 4
local function settle(parent, child, lets_go)
  local key = P .. 'flags:' .. parent
  local flags = tonumber(call('HGET', key, child) or -1)
  if not flags then error('flags of an edge that are no number', 0) end
  if flags >= 0 then
    local left = flags < SETTLED and flags + SETTLED or flags
    if lets_go and left % 2 == LOADS then left = left - LOADS end
    if left ~= flags then call('HSET', key, child, left) end
    call('SREM', P .. 'untold:' .. parent, child)
    if lets_go then call('SREM', P .. 'loading:' .. parent, child) end
  end
  free(parent)
  return ''
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(settle, item[1], item[2], item[3]) end
finish()
return reply
