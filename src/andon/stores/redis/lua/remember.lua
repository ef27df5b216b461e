-- Note which kinds a code may claim, and which not: its digest, then these and those. What is known is
-- forgotten after a while, and decided anew by whoever claims then; also when there is too much of it.
local refused = refuse_strangers()
if refused then return refused end

local KNOWN_MS, MOST_KNOWN = 3600000, 20000
local function note(key, kinds)
  if #kinds == 0 then return end
  if call('SCARD', key) > MOST_KNOWN then call('DEL', key) end
  local is_new = call('EXISTS', key) == 0
  in_turn('SADD', key, kinds)
  if is_new then call('PEXPIRE', key, KNOWN_MS) end
end
note(P .. 'can:' .. A[1], A[2])
note(P .. 'cannot:' .. A[1], A[3])
return {now}
