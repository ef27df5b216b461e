-- The names of the queues known in this partition.
return {now, unpack(call('SMEMBERS', P .. 'queues'))}
