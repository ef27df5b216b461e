-- Events from a position on ("" is the oldest kept): mark, first and next position of the log, the
-- position begun at, then the events.
local found = call('HMGET', P .. 'meta', 'id', 'log_start')
local start = tonumber(found[2] or 0)
local stop = start + call('LLEN', P .. 'log')
local from = A[1] and math.min(math.max(A[1], start), stop) or start
local reply = {now, found[1] or '', int(start), int(stop), int(from)}
if A[2] > 0 and from < stop then
  local most = math.min(A[2], stop - from)
  for _, event in ipairs(call('LRANGE', P .. 'log', from - start, from - start + most - 1)) do
    reply[#reply + 1] = event
  end
end
return reply
