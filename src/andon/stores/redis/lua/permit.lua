-- Permits for claims on their way in other partitions, of limits that all partitions share: taken
-- before runs are counted, given back after the claim, forgotten by themselves after a crash. Per
-- limit how many others were taken before this one. Without a number they are given back.
local refused = refuse_strangers()
if refused then return refused end

local PERMIT_MS = {{permit_ms}}
local token, count = A[1], A[2]

local function take(name)
  local key, before = P .. 'permits:' .. name, 0
  local turn = call('HINCRBY', P .. 'meta', 'turn', 1)
  local others = call('HGETALL', key)
  for i = 1, #others, 2 do
    local till, its_turn, number = string.match(others[i + 1], '^(%d+) (%d+) (%d+)$')
    if tonumber(till) <= now then
      call('HDEL', key, others[i])
    elseif others[i] ~= token then
      before = before + number
    end
  end
  call('HSET', key, token, int(now + PERMIT_MS) .. ' ' .. turn .. ' ' .. count)
  return before
end

local reply = {now}
for i, name in ipairs(A[3]) do
  if count then reply[i + 1] = take(name) else call('HDEL', P .. 'permits:' .. name, token) end
end
return reply
