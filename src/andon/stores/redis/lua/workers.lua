-- Workers seen within the given time, each with the time when it was seen last; others are removed.
local refused = refuse_strangers()
if refused then return refused end

for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'seen', '-inf', now - A[1], 'LIMIT', 0, 1000)) do
  call('HDEL', P .. 'workers', id)
  call('ZREM', P .. 'seen', id)
end
local reply = {now}
local seen = call('ZRANGE', P .. 'seen', 0, -1, 'WITHSCORES')
for i = 1, #seen, 2 do
  reply[#reply + 1] = call('HGET', P .. 'workers', seen[i])
  reply[#reply + 1] = tonumber(seen[i + 1])
end
return reply
