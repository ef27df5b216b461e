-- Publish task types: field and packed type, in turn.
local refused = refuse_strangers()
if refused then return refused end

for i = 1, #A, 2 do call('HSET', P .. 'types', A[i], A[i + 1]) end
hint('config', '')
finish()
return {now}
