-- The queues known in this partition, then the name and settings of each that is configured here.
local reply = {now, call('SMEMBERS', P .. 'queues')}
for _, part in ipairs(call('HGETALL', P .. 'configs')) do reply[#reply + 1] = part end
return reply
