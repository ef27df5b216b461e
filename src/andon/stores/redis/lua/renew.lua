-- Extend leases and write progress of runs that still hold their task: "o" (ok), "c" (asked to
-- stop), "l" (lost), "i" with why (the cell is damaged). Touches run cells only; timers fire early and are armed anew then.
local function renew(item)
  local id = item[1]
  local task = P .. 'task:' .. id
  local found = fields_of(id, 'c', 'q')
  if not found[1] or found[1] == '' then return 'l' end
  local cell = cell_of(found[1])
  if not cell then error('a run cell that does not decode', 0) end
  if cell[C_RUN] ~= item[2] then return 'l' end
  cell[C_LEASE] = math.max(cell[C_LEASE], now + item[3])
  if item[4] then cell[C_HEARTBEAT] = now end
  if item[5] then cell[C_PROGRESS] = item[5] end
  if item[6] then cell[C_MESSAGE] = item[6] end
  is_writing = true
  call('HSET', task, 'c', cmsgpack.pack(cell))
  if item[5] or item[6] then hint('run', id) end
  return found[2] == item[2] and 'c' or 'o'
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(renew, item) end
finish()
return reply
