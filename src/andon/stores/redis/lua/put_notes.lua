-- Compare and set notes of this partition: 1 if it was written, 0 if it is something else. Beside each
-- scope's notes stand their keys in order. Idempotent.
local refused = refuse_strangers()
if refused then return refused end

local function put(place, key, value, expect)
  local found = call('HGET', P .. 'notes:' .. place, key)
  if found ~= (expect or false) then return 0 end
  if value then
    call('HSET', P .. 'notes:' .. place, key, value)
    call('ZADD', P .. 'noted:' .. place, 0, key)
  else
    call('HDEL', P .. 'notes:' .. place, key)
    call('ZREM', P .. 'noted:' .. place, key)
  end
  return 1
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(put, item[1], item[2], item[3], item[4]) end
finish()
return reply
