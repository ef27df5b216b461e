-- Remove edges of parents here. A parent whose deletion waited only for them may be deleted. Idempotent.
local refused = refuse_strangers()
if refused then return refused end

local function unlink(parent, child)
  call('ZREM', P .. 'edges:' .. parent, child)
  call('HDEL', P .. 'flags:' .. parent, child)
  call('SREM', P .. 'untold:' .. parent, child)
  call('SREM', P .. 'loading:' .. parent, child)
  free(parent)
  return ''
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(unlink, item[1], item[2]) end
finish()
return reply
