-- Which of its dependencies were counted off for each blocked child; for others nothing at all.
local reply = {now}
for i, item in ipairs(A) do
  local child, row = item[1], {}
  if fields_of(child, 'st')[1] == 'blocked' then
    row[1] = 'blocked'
    for j = 2, #item do
      row[j] = call('SISMEMBER', P .. 'satisfied:' .. child, item[j])
    end
  end
  reply[i + 1] = row
end
return reply
