-- Drop the days of the daily history before A[1] (days since 1970): each is one hash.
local refused = refuse_strangers()
if refused then return refused end

for _, day in ipairs(call('SMEMBERS', P .. 'days')) do
  if tonumber(day) < A[1] then
    call('UNLINK', P .. 'daily:' .. day)
    call('SREM', P .. 'days', day)
  end
end
return {now}
