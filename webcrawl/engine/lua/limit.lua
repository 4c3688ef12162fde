-- Stores the limits of a host, known or not, and checks the host again if its budget was spent.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, "pages bytes depth" (numbers, or "-" for the limit of all hosts)
-- reply   1
local P, host = KEYS[1], ARGV[1]
if ARGV[2] == '- - -' then redis.call('HDEL', P .. 'limits', host)
else redis.call('HSET', P .. 'limits', host, ARGV[2]) end
if redis.call('HGET', P .. 'parked', host) == 'budget' then unpark(P, KEYS[2], host, now_ms()) end
return 1
