-- Reserve unique keys of this partition for tasks of others: "" or, where another task holds the key,
-- that task, the ms since which it does, and the reservation as it stands. One that stands as the
-- caller found it to be stale is taken over, and so is that of the task whose place this one takes:
-- it goes back to that one if this one is never written.
local refused = refuse_strangers()
if refused then return refused end

local reply = {now}
for i, item in ipairs(A) do
  local unique, till, id, stale, heir_of = item[1], item[2], item[3], item[4], item[5]
  local holder, until_then, since, found = reservation(unique)
  local over = not holder or holder == id or holder == heir_of or found == stale
    or (until_then > 0 and until_then <= now)
  if over then
    reserve(unique, till, id, heir_of ~= '' and heir_of)
    reply[i + 1] = ''
  else
    reply[i + 1] = {holder, now - since, found}
  end
end
return reply
