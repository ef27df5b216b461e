-- Forget edges of parents here, and let parents go that waited only for them. Idempotent.
local refused = refuse_strangers()
if refused then return refused end

for _, item in ipairs(A) do
  local parent, child = item[1], item[2]
  call('ZREM', P .. 'edges:' .. parent, child)
  call('HDEL', P .. 'flags:' .. parent, child)
  call('SREM', P .. 'untold:' .. parent, child)
  call('SREM', P .. 'loading:' .. parent, child)
  free(parent)
end
finish()
return {now}
