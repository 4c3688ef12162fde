-- Sets what a client wants of a queue, known or not.
-- KEYS
--   P                 the crawl's prefix in this shard
--   H                 the prefix of host records
-- ARGV
--   queue
--   field             "delay" in ms | "blocked" until ms since 1970 | "limit" of URLs, for a known queue only
--   #value            0 removes a block or a limit
--   #default_delay    ms between two deliveries of a queue without a delay of its own
-- reply               1, or 0 if the queue has no URLs
local key, known = P .. 'client:queue:' .. queue, redis.call('ZSCORE', P .. 'client:queues', queue) and 1 or 0
if field == 'limit' and known == 0 then return 0 end
if value == 0 and field ~= 'delay' then redis.call('HDEL', key, field)
else redis.call('HSET', key, field, field == 'blocked' and value + ms_ahead() or value) end
if known == 1 then clients.rank(P, queue, default_delay) end
return known
