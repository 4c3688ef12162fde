#!lua flags=allow-oom
-- Sets again when queues may be looked at, after the delay of all queues has changed.
-- KEYS
--   P                 the crawl's prefix in this shard
-- ARGV
--   #start            position of the first queue
--   #most             queues to look at
--   #default_delay    ms between two deliveries of a queue without a delay of its own
-- reply               number of queues that were looked at
local some = redis.call('ZRANGE', P .. 'client:queues', start, start + most - 1)
for _, queue in ipairs(some) do clients.rank(P, queue, default_delay) end
return #some
