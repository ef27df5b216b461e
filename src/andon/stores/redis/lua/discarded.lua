-- The last two moves of records that were discarded at their end within the window: end and deletion,
-- as the log has them at the place that the stub tells; "" for all others.
local start = tonumber(call('HGET', P .. 'meta', 'log_start') or 0)
local reply = {now}
for i, id in ipairs(A) do
  local stub = call('EXISTS', P .. 'task:' .. id) == 0 and stub_of(id)
  local at = stub and stub[#stub]
  reply[i + 1] = type(at) == 'number' and at >= start and call('LRANGE', P .. 'log', at - start, at - start + 1) or ''
end
return reply
