-- What is known beside the tasks: all fields of one registry, or the one named.
if A[2] then return {now, call('HGET', P .. A[1], A[2])} end
return {now, unpack(call('HGETALL', P .. A[1]))}
