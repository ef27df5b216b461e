-- Places in lists, (creation, id) each, after a place and in order, and not beyond another one's time:
-- per list a row of its own. Looks at the entries of one millisecond beyond the place, and at no
-- others.
local newest, created, after, most, last = A[1], A[2], A[3], A[4], A[6]
local reply = {now}

local function walk(list)
  local row, offset = {}, 0
  local read = newest and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
  local from = created and int(created) or (newest and '+inf' or '-inf')
  local to = last and int(last) or (newest and '-inf' or '+inf')
  while #row < most * 2 do
    local page = call(read, list, from, to, 'WITHSCORES', 'LIMIT', offset, most)
    if #page == 0 then break end
    offset = offset + most
    for i = 1, #page, 2 do
      local id, at = page[i], tonumber(page[i + 1])
      local passed = created and at == created
        and (id == after or before(newest and after or id, newest and id or after))
      if not passed and #row < most * 2 then
        row[#row + 1] = int(at)
        row[#row + 1] = id
      end
    end
  end
  return row
end

for i, name in ipairs(A[5]) do reply[i + 1] = walk(P .. name) end
return reply
