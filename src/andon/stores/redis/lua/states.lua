-- The states of records, or those that ones deleted within the window ended in, or "".
local reply = {now}
for i, id in ipairs(A) do
  local state = fields_of(id, 'st')[1]
  if not state then
    local stub = stub_of(id)
    state = stub and stub[3] or ''
  end
  reply[i + 1] = state
end
return reply
