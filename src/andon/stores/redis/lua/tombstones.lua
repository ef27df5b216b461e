-- What is left of records that were deleted within the window: state, and last run with its report;
-- "" for those that live, or of which nothing is left.
local reply = {now}
for i, id in ipairs(A) do
  local stub = call('EXISTS', P .. 'task:' .. id) == 0 and stub_of(id)
  reply[i + 1] = stub and {stub[3], stub[4]} or ''
end
return reply
