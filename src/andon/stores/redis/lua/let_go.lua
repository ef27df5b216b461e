-- Edges of parents here hold nothing up any more: they count as told, and keep no result. Parents are
-- let go that waited only for them. Idempotent.
local refused = refuse_strangers()
if refused then return refused end

local LOADS, SETTLED = 1, 4
local function let_go(parent, child)
  local key = P .. 'flags:' .. parent
  local flags = tonumber(call('HGET', key, child) or -1)
  if not flags then error('flags of an edge that are no number', 0) end
  if flags >= 0 then
    if flags < SETTLED then flags = flags + SETTLED end
    if flags % 2 == LOADS then flags = flags - LOADS end
    call('HSET', key, child, flags)
    call('SREM', P .. 'untold:' .. parent, child)
    call('SREM', P .. 'loading:' .. parent, child)
  end
  free(parent)
  return ''
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(let_go, item[1], item[2]) end
finish()
return reply
