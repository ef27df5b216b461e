-- Of each queue the kinds of which anything is ready, in turn with the score of what is first of each.
-- One look per queue, and none per task.
local reply = {now}
for i, queue in ipairs(A) do
  local row, only = {}, only_kind(call('HGET', P .. 'ready', queue))
  if only then
    row = first_of(queue, only)
    if row[1] then row[1] = only end
  else
    row = call('ZRANGE', heads_of(queue), 0, -1, 'WITHSCORES')
    for j = 1, #row, 2 do row[j] = kind_in(row[j]) end
  end
  reply[i + 1] = row
end
return reply
