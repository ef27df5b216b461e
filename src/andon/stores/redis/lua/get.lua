-- Records in the order asked for: the id and the parts of each.
local reply = {now}
for _, id in ipairs(A) do
  hand_out(reply, id, parts(id))
end
return reply
