-- Ids that begin so, (creation, id) each, of lists after a place: all there are up to a horizon, the
-- place up to which every list was looked through; none if all have ended. The list that lags most
-- is looked at next, until `budget` ids were looked at, `most` were found, or all lists are beyond
-- the time `last`. Reads no record, and goes to its place in a list by its rank. What the first few
-- ids of each list cost comes on top of the budget: else many lists would leave none to go on with.
local newest, created, after, budget = A[1], A[2], A[3], A[4]
local begin, most, last, names = A[5], A[6], A[7], A[8]
local FIRST, CHUNK = 10, 500
local range = newest and 'ZREVRANGE' or 'ZRANGE'
local found, open, looked = {}, {}, 0

-- How many entries of a list are passed already: those up to the place, in this order.
local function passed(list)
  if not created then return 0 end
  local low = call('ZCOUNT', list, '-inf', '(' .. int(created))
  local upper = call('ZCOUNT', list, '-inf', int(created))
  local high = upper
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(call('ZRANGE', list, middle, middle)[1], after) then
      low = middle + 1
    else
      high = middle
    end
  end
  if newest then return call('ZCARD', list) - low end
  if low < upper and call('ZRANGE', list, low, low)[1] == after then return low + 1 end
  return low
end

local function look(one, number)
  local ids = call(range, one.list, one.rank, one.rank + number - 1)
  one.rank, looked = one.rank + #ids, looked + #ids
  for _, id in ipairs(ids) do
    if string.sub(id, 1, #begin) == begin then
      found[#found + 1] = {tonumber(call('ZSCORE', one.list, id)), id}
    end
  end
  one.ended = #ids < number
  if #ids > 0 then
    one.id = ids[#ids]
    one.at = tonumber(call('ZSCORE', one.list, one.id))
  end
end

-- Whether a place, a time and an id, comes earlier in this order.
local function earlier(at, id, other_at, other_id)
  if at ~= other_at then return (at < other_at) ~= newest end
  return id ~= other_id and before(id, other_id) ~= newest
end

local function lagging()
  local slowest = 1
  for i = 2, #open do
    if earlier(open[i].at, open[i].id, open[slowest].at, open[slowest].id) then slowest = i end
  end
  return slowest
end

for _, name in ipairs(names) do
  local one = {list = P .. name}
  one.rank = passed(one.list)
  look(one, FIRST)
  if not one.ended then open[#open + 1] = one end
end
local step, previous, ends = FIRST, nil, looked + budget
while #open > 0 and looked < ends and #found < most do
  local i = lagging()
  local one = open[i]
  if last and one.at ~= last and (one.at > last) ~= newest then break end
  -- Short steps while lists take turns, for what lies beyond the horizon is looked at again.
  local turn = math.max(FIRST, math.floor(budget / 8 / #open))
  step = one == previous and math.min(2 * step, CHUNK) or math.min(turn, CHUNK)
  previous = one
  look(one, step)
  if one.ended then table.remove(open, i) end
end

local reply = {now, looked, '', ''}
local horizon = #open > 0 and open[lagging()] or nil
if horizon then reply[3], reply[4] = int(horizon.at), horizon.id end
for _, one in ipairs(found) do
  if not (horizon and earlier(horizon.at, horizon.id, one[1], one[2])) then
    reply[#reply + 1] = int(one[1])
    reply[#reply + 1] = one[2]
  end
end
return reply
