-- Let through what a queue's limit per key now has room for, some keys at a time: the key to go on
-- from, "" when all were looked at.
local refused = refuse_strangers()
if refused then return refused end

local KEYS_AT_ONCE, TASKS_AT_ONCE = 50, 200
local queue, from = A[1], A[2]
local keys = call('ZRANGEBYLEX', P .. 'gates:' .. queue, from == '' and '-' or '[' .. from, '+',
  'LIMIT', 0, KEYS_AT_ONCE + 1)
local room = TASKS_AT_ONCE
local following = ''
for i, key in ipairs(keys) do
  if i > KEYS_AT_ONCE or room <= 0 then
    following = key
    break
  end
  room = room - promote(queue, key, room)
  if room <= 0 then
    following = key
    break
  end
end
finish()
return {now, following}
