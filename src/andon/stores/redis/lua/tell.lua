-- Mark edges of parents here as told. Idempotent.
local refused = refuse_strangers()
if refused then return refused end

local SETTLED = 4
local function tell(parent, child)
  local flags = tonumber(call('HGET', P .. 'flags:' .. parent, child) or -1)
  if not flags then error('flags of an edge that are no number', 0) end
  if flags >= 0 and flags < SETTLED then
    call('HSET', P .. 'flags:' .. parent, child, flags + SETTLED)
    call('SREM', P .. 'untold:' .. parent, child)
  end
  free(parent)
  return ''
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(tell, item[1], item[2]) end
finish()
return reply
