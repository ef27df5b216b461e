-- Events from a position on (none: the oldest kept): mark, first and next position of the log, the
-- position begun at, whether that is not where the reader was, a check of the last event before the
-- next position, then the events. By the check the reader finds out whether the log has lost events that
-- it has read, and has grown since.
local found = call('HMGET', P .. 'meta', 'id', 'log_start')
local start = tonumber(found[2] or 0)
local stop = start + call('LLEN', P .. 'log')
local from = A[1] and math.min(math.max(A[1], start), stop) or start
local most = math.min(A[2], stop - from)
local events = {}
local check = ''
local function checked(event)
  return string.sub(redis.sha1hex(event), 1, 8)
end
if stop > start and (from > start or most > 0) then
  -- with the event before
  events = call('LRANGE', P .. 'log', math.max(from - start - 1, 0), from - start + most - 1)
  check = checked(events[#events])
end
local before = from > start and table.remove(events, 1)
local elsewhere = A[1] and A[1] ~= from
if before and not elsewhere and A[3] and A[3] ~= '' and A[3] ~= checked(before) then
  elsewhere, from, events = true, stop, {}
  check = checked(call('LINDEX', P .. 'log', -1))
end
local reply = {now, found[1] or '', int(start), int(stop), int(from), elsewhere and 1 or 0, check}
for _, event in ipairs(events) do
  reply[#reply + 1] = event
end
return reply
