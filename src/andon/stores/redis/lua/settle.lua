-- Count satisfied dependencies of children here off, each once: how many remain of each child. A
-- child that has left `blocked` waits for nothing.
local refused = refuse_strangers()
if refused then return refused end

local function settle(child, parent, satisfied)
  local found = fields_of(child, 'st', 'x')
  if found[1] ~= 'blocked' then return 0 end
  if satisfied then call('SADD', P .. 'satisfied:' .. child, parent) end
  local x = entry_of(found[2])
  if not x then return 1 end -- it is damaged: it waits until it is set aside
  return x[REMAINING] - call('SCARD', P .. 'satisfied:' .. child)
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(settle, item[1], item[2], item[3]) end
return reply
