-- Notes of one scope in the order of their keys, after a key: key and value of each.
local place, after, most = A[1], A[2], A[3]
local reply = {now}
local from = after == '' and '-' or '(' .. after
for _, key in ipairs(call('ZRANGEBYLEX', P .. 'noted:' .. place, from, '+', 'LIMIT', 0, most)) do
  local value = call('HGET', P .. 'notes:' .. place, key)
  if value then
    reply[#reply + 1] = key
    reply[#reply + 1] = value
  end
end
return reply
