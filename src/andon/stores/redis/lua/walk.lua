-- The next places of lists, (creation, id) each, in no order: all there are after a place up to a
-- horizon, the place up to which every list was looked through; none if all have ended. Of ids that
-- do not begin so there are none. The list that lags most is looked at next, until `budget` ids were
-- looked at, `most` were found, or all lists are beyond the time `last`. Reads no record, and goes to
-- its place in a list by its rank. What the first few ids of each list cost comes on top of the
-- budget: else many lists would leave none to go on with.
local newest, created, after, budget = A[1], A[2], A[3], A[4]
local begin, most, last, names = A[5], A[6], A[7], A[8]
local FIRST, CHUNK = 10, 500
local range = newest and 'ZREVRANGE' or 'ZRANGE'
local found, open, looked = {}, {}, 0

-- How many entries of a list are passed already: those up to the place, in this order.
local function passed(list, size)
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
  if newest then return size - low end
  if low < upper and call('ZRANGE', list, low, low)[1] == after then return low + 1 end
  return low
end

local function keep(at, id)
  found[#found + 1] = {tonumber(at), id}
end

-- Goes on in a list. Where not every id is wanted, times are asked for of those that are.
local function look(one, number)
  local upto, size = one.rank + number - 1, 0
  if begin == '' then
    local both = call(range, one.list, one.rank, upto, 'WITHSCORES')
    size = #both / 2
    for i = 1, #both, 2 do keep(both[i + 1], both[i]) end
    if size > 0 then one.at, one.id = tonumber(both[#both]), both[#both - 1] end
  else
    local ids = call(range, one.list, one.rank, upto)
    size = #ids
    for _, id in ipairs(ids) do
      if string.sub(id, 1, #begin) == begin then keep(call('ZSCORE', one.list, id), id) end
    end
    if size > 0 then one.at, one.id = tonumber(call('ZSCORE', one.list, ids[size])), ids[size] end
  end
  one.rank, one.looked, looked = one.rank + size, one.looked + size, looked + size
  one.ended = size < number
end

-- Whether a place, a time and an id, comes earlier in this order.
local function earlier(at, id, other_at, other_id)
  if at ~= other_at then return (at < other_at) ~= newest end
  return id ~= other_id and before(id, other_id) ~= newest
end

-- The list to look at next: of those that lag most by their times, the one that was looked at least.
-- (To compare ids here, each time for every list, would cost more than to look at them.)
local function next_turn()
  local turn, first = 1, open[1]
  for i = 2, #open do
    local one = open[i]
    if one.at == first.at then
      if one.looked < first.looked then turn, first = i, one end
    elseif (one.at < first.at) ~= newest then
      turn, first = i, one
    end
  end
  return turn
end

for _, name in ipairs(names) do
  local one = {list = P .. name, looked = 0}
  local size = call('ZCARD', one.list)
  if size > 0 then
    one.rank = passed(one.list, size)
    look(one, FIRST)
    if not one.ended then open[#open + 1] = one end
  end
end
local step, previous, ends = FIRST, nil, looked + budget
while #open > 0 and looked < ends and #found < most do
  local turn = next_turn()
  local one = open[turn]
  if last and one.at ~= last and (one.at > last) ~= newest then break end
  -- Short steps while lists take turns, for what lies beyond the horizon is looked at again.
  local short = math.max(FIRST, math.floor(budget / 2 / #open))
  step = one == previous and math.min(2 * step, CHUNK) or math.min(short, CHUNK)
  previous = one
  look(one, step)
  if one.ended then table.remove(open, turn) end
end

local reply = {now, looked, '', ''}
local horizon = open[1]
for i = 2, #open do
  if earlier(open[i].at, open[i].id, horizon.at, horizon.id) then horizon = open[i] end
end
if horizon then reply[3], reply[4] = int(horizon.at), horizon.id end
for _, one in ipairs(found) do
  if not (horizon and earlier(horizon.at, horizon.id, one[1], one[2])) then
    reply[#reply + 1] = int(one[1])
    reply[#reply + 1] = one[2]
  end
end
return reply
