-- Set the limits of a queue in this partition; a changed rate begins with a full bucket. With the whole
-- configuration, only if the one there is what is expected (nil: none), or what is to be set, as a
-- repeat finds it; 1 if it was set.
local refused = refuse_strangers()
if refused then return refused end

local queue, limits, whole = A[1], A[2], A[3]
local there = whole and call('HGET', P .. 'configs', queue) or nil
if whole and there ~= A[4] and there ~= whole then return {now, 0} end
call('DEL', P .. 'limits:' .. queue, P .. 'bucket:' .. queue)
for name, value in pairs(limits) do call('HSET', P .. 'limits:' .. queue, name, value) end
call('SADD', P .. 'queues', queue)
call('HSET', P .. 'meta', 'queue:' .. queue, bounds_of(limits))
if whole then call('HSET', P .. 'configs', queue, whole) end
hint('config', '')
hint('ready', queue)
finish()
return {now, 1}
