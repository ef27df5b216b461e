-- Edges of one parent ordered by child, after a child: child and flags of each.
local parent, after, most = A[1], A[2], A[3]
local reply = {now}
local from = after == '' and '-' or '(' .. after
for _, child in ipairs(call('ZRANGEBYLEX', P .. 'edges:' .. parent, from, '+', 'LIMIT', 0, most)) do
  reply[#reply + 1] = child
  reply[#reply + 1] = tonumber(call('HGET', P .. 'flags:' .. parent, child) or 0)
end
return reply
