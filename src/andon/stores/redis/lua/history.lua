-- The moves of one task that are kept apart from its status, then the parts of the record.
local found = parts(A[1])
return {now, call('LRANGE', P .. 'history:' .. A[1], 0, -1), unpack(found, 1, 6)}
