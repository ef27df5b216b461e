-- Drop events from the start of the log up to a position, and move the start there.
local refused = refuse_strangers()
if refused then return refused end

local start = tonumber(call('HGET', P .. 'meta', 'log_start') or 0)
local count = math.min(A[1] - start, call('LLEN', P .. 'log'))
if count <= 0 then return {now, 0} end
call('LTRIM', P .. 'log', count, -1)
call('HSET', P .. 'meta', 'log_start', int(start + count))
return {now, count}
