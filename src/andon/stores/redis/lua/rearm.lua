-- Set timers anew where the one that was taken is still what is set: a move sets its own.
local refused = refuse_strangers()
if refused then return refused end

local function rearm(id, at, held_at)
  if tonumber(call('ZSCORE', TIMERS, id) or -1) == held_at then set_timer(id, at) end
  return ''
end

local reply = {now}
for i, item in ipairs(A) do reply[i + 1] = alone(rearm, item[1], item[2], item[3]) end
finish()
return reply
