-- Tasks whose timer has passed, each pushed on by the hold in the same step; before them the
-- earliest timer not yet passed. A run whose lease was renewed, and that nothing else limits, is
-- armed anew at its lease. A lease that ran out before `patience` waits until then.
local refused = refuse_strangers()
if refused then return refused end

local SCAN_BUDGET = 2000
local limit, hold_ms, patience = A[1], A[2], A[3]
local timers = P .. 'timers'
local reply, looked, taken = {now, ''}, 0, 0

local function later(id, found)
  if found[5] ~= 'active' or not found[3] then return nil end
  local cell = cell_of(found[3])
  if not cell then return nil end -- it is damaged, which its next reader finds out
  local lease = cell[C_LEASE]
  if lease <= now then return now < patience and patience or nil end
  local x = entry_of(fields_of(id, 'x')[1])
  if x and x[STATE] == 'pending' and not x[FIRST_LIMIT] and not x[DEAD_AT] then return lease end
end

local first = call('ZRANGE', timers, 0, 0, 'WITHSCORES')
local none_due = not first[1] or tonumber(first[2]) > now
while not none_due and taken < limit and looked < SCAN_BUDGET do
  local due = call('ZRANGEBYSCORE', timers, '-inf', now, 'LIMIT', 0, math.min(limit - taken, 200))
  if #due == 0 then break end
  for _, id in ipairs(due) do
    looked = looked + 1
    local found = parts(id)
    local at = later(id, found)
    if not found[5] then
      call('ZREM', timers, id)
    elseif at then
      call('ZADD', timers, at, id)
    else
      call('ZADD', timers, now + hold_ms, id)
      taken = taken + 1
      hand_out(reply, id, found)
    end
  end
  if hold_ms <= 0 then break end
end
if not none_due then
  first = call('ZRANGEBYSCORE', timers, '(' .. int(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
end
reply[2] = first[2] or ''
return reply
