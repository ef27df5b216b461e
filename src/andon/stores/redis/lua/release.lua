-- Release reservations that have not changed since they were read.
local refused = refuse_strangers()
if refused then return refused end

for _, item in ipairs(A) do
  local _, _, _, found = reservation(item[1])
  if found and found == item[2] then call('DEL', P .. 'unique:' .. item[1]) end
end
return {now}
