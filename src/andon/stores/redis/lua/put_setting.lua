-- Compare and set a small configuration value: 1 if it was set.
local refused = refuse_strangers()
if refused then return refused end

local found = call('HGET', P .. 'settings', A[1])
if found ~= (A[3] or false) then return {now, 0} end
call('HSET', P .. 'settings', A[1], A[2])
hint('config', '')
finish()
return {now, 1}
