-- Values of notes of this partition, nil where there is none.
local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = call('HGET', P .. 'notes:' .. item[1], item[2]) end
return reply
