-- Count satisfied dependencies of children here off, each once: how many remain of each child. A
-- child that has left `blocked` waits for nothing.
local refused = refuse_strangers()
if refused then return refused end

local function settle(child, parent, satisfied)
  local found = call('HMGET', P .. 'task:' .. child, 'st', 'x')
  if found[1] ~= 'blocked' then return 0 end
  if satisfied then call('SADD', P .. 'satisfied:' .. child, parent) end
  return cmsgpack.unpack(found[2])[REMAINING] - call('SCARD', P .. 'satisfied:' .. child)
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = settle(item[1], item[2], item[3]) end
return reply
