-- Mark edges of parents here as told. Idempotent.
local refused = refuse_strangers()
if refused then return refused end

local SETTLED = 4
for _, item in ipairs(A) do
  local parent, child = item[1], item[2]
  local flags = tonumber(call('HGET', P .. 'flags:' .. parent, child) or -1)
  if flags >= 0 and flags < SETTLED then
    call('HSET', P .. 'flags:' .. parent, child, flags + SETTLED)
    call('SREM', P .. 'untold:' .. parent, child)
  end
  free(parent)
end
finish()
return {now}
