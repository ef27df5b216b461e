-- The reservations of unique keys of this partition as they stand, "" where there is none.
local reply = {now}
for i, unique in ipairs(A) do
  local _, _, _, found = reservation(unique)
  reply[i + 1] = found or ''
end
return reply
