-- Draw tokens of a rate that all partitions share, or put back what was not used: how many were
-- drawn, and the ms until the next can be.
local refused = refuse_strangers()
if refused then return refused end

local queue, rate, burst, wanted = A[1], A[2], A[3], A[4]
local bucket = P .. 'bucket:' .. queue
local found = call('HMGET', bucket, 'tokens', 'at')
local tokens = burst
if found[1] then tokens = math.min(burst, found[1] + (now - found[2]) * rate / 1000) end
local drawn = math.min(wanted, math.max(math.floor(tokens + 1e-9), 0)) -- negative: put back
tokens = math.min(burst, tokens - drawn)
call('HSET', bucket, 'tokens', string.format('%.17g', tokens), 'at', int(now))
local wait = 0
if tokens < 1 then wait = math.ceil((1 - tokens) / rate * 1000) end
return {now, drawn, wait}
