-- Draw tokens of a rate that all partitions share, or, with how many of a claim's tokens were used,
-- put back the others: how many were drawn, and the ms until the next can be.
-- What is drawn takes its place in the bucket until it is known to be used: else the bucket would begin
-- to fill before the runs are claimed, and with them more would begin than the rate allows.
local refused = refuse_strangers()
if refused then return refused end

local FLIGHT_MS = {{permit_ms}} -- how long a claimer that died holds what it drew
local queue, rate, burst, wanted, token, used = A[1], A[2], A[3], A[4], A[5], A[6]
local bucket, flights = P .. 'bucket:' .. queue, P .. 'flights:' .. queue

local flying, own = 0, nil
local there = call('HGETALL', flights)
for i = 1, #there, 2 do
  local till, count = string.match(there[i + 1], '^(%d+) (%d+)$')
  if tonumber(till) <= now then
    call('HDEL', flights, there[i])
  else
    flying = flying + count
    if there[i] == token then own = tonumber(count) end
  end
end

local found = call('HMGET', bucket, 'tokens', 'at')
local tokens = burst - flying
if found[1] then tokens = math.min(tokens, found[1] + (now - found[2]) * rate / 1000) end
local drawn = own or 0 -- a repeat is told what it has
if used then
  if own then
    tokens = tokens + own - used
    call('HDEL', flights, token)
  end
elseif not own then
  drawn = math.min(wanted, math.max(math.floor(tokens + 1e-9), 0))
  if drawn > 0 then
    tokens = tokens - drawn
    call('HSET', flights, token, int(now + FLIGHT_MS) .. ' ' .. drawn)
  end
end
call('HSET', bucket, 'tokens', string.format('%.17g', tokens), 'at', int(now))
local wait = 0
if tokens < 1 then wait = math.ceil((1 - tokens) / rate * 1000) end
return {now, drawn, wait}
