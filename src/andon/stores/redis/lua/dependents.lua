-- Edges of parents here, each ordered by child, after a child: child and flags of each.
local function dependents(parent, after, most)
  local found = {}
  local from = after == '' and '-' or '(' .. after
  for _, child in ipairs(call('ZRANGEBYLEX', P .. 'edges:' .. parent, from, '+', 'LIMIT', 0, most)) do
    found[#found + 1] = child
    found[#found + 1] = tonumber(call('HGET', P .. 'flags:' .. parent, child) or 0)
  end
  return found
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = dependents(item[1], item[2], item[3]) end
return reply
