-- What a crawl may take from a host, which may not have been met yet. A host whose budget was spent is looked at again.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, "pages bytes depth" (a number each, or "-": as for all hosts)
-- reply   1
local P, host = KEYS[1], ARGV[1]
if ARGV[2] == '- - -' then redis.call('HDEL', P .. 'limits', host)
else redis.call('HSET', P .. 'limits', host, ARGV[2]) end
if redis.call('HGET', P .. 'parked', host) == 'budget' then unpark(P, KEYS[2], host, now_ms()) end
return 1
