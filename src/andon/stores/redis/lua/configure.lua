-- Set the limits of a queue in this partition; a changed rate begins with a full bucket.
local refused = refuse_strangers()
if refused then return refused end

local queue, limits = A[1], A[2]
call('DEL', P .. 'limits:' .. queue, P .. 'bucket:' .. queue)
for name, value in pairs(limits) do call('HSET', P .. 'limits:' .. queue, name, value) end
call('SADD', P .. 'queues', queue)
call('HSET', P .. 'meta', 'queue:' .. queue, bounds_of(limits))
if A[3] then call('HSET', P .. 'configs', queue, A[3]) end
hint('config', '')
hint('ready', queue)
finish()
return {now}
