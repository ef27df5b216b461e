-- Set timers anew where the one that was taken is still what is set: a move sets its own.
local refused = refuse_strangers()
if refused then return refused end

for _, item in ipairs(A) do
  local id, at, held_at = item[1], item[2], item[3]
  if tonumber(call('ZSCORE', P .. 'timers', id) or -1) == held_at then set_timer(id, at) end
end
finish()
return {now}
