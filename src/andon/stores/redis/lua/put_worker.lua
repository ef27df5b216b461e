-- Note that a worker is alive, or, without a description, that it has left.
local refused = refuse_strangers()
if refused then return refused end

if A[2] then
  call('HSET', P .. 'workers', A[1], A[2])
  call('ZADD', P .. 'seen', now, A[1])
else
  call('HDEL', P .. 'workers', A[1])
  call('ZREM', P .. 'seen', A[1])
end
return {now}
