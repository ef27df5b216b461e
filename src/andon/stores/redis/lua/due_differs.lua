-- Which lists by due time differ in length from the lists of the same states: a release that does not
-- know them wrote there. Names are "queue|state". Two looks for each.
local reply = {now}
for _, name in ipairs(A) do
  if call('ZCARD', P .. 'due:' .. name) ~= call('ZCARD', P .. 'state:' .. name) then
    reply[#reply + 1] = name
  end
end
return reply
