-- Count dependencies of children here, each once: of one that satisfies, how many must satisfy its
-- child yet; of one that does not, how many more may fail it. A child that is no longer `blocked` waits
-- for nothing.
local refused = refuse_strangers()
if refused then return refused end

local function settle(child, parent, satisfied)
  local found = fields_of(child, 'st', 'x')
  if found[1] ~= 'blocked' then return satisfied and 0 or -1 end
  if satisfied then call('SADD', P .. 'satisfied:' .. child, parent) end
  local x = entry_of(found[2])
  if not x then return 1 end -- it is damaged: it waits until it is set aside
  if satisfied then
    if x[SPARE] then call('SREM', P .. 'failing:' .. child, parent) end
    return x[REMAINING] - call('SCARD', P .. 'satisfied:' .. child)
  end
  if not x[SPARE] then return -1 end
  if call('SISMEMBER', P .. 'satisfied:' .. child, parent) == 0 then
    call('SADD', P .. 'failing:' .. child, parent)
  end
  return x[SPARE] - call('SCARD', P .. 'failing:' .. child)
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(settle, item[1], item[2], item[3]) end
return reply
