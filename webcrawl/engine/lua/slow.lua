#!lua flags=allow-oom
-- Sets how much longer the gaps of hosts are that have sunk to the lowest level, for a minute.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    ratio, how many hosts a domain may ask at once, the usual ms between two requests, number of shards, ms within
--         which a host counts as one that could be asked soon
-- reply   {hosts that have better URLs and could be asked soon, owners of budgets with hosts at the lowest level, such
--         owners that probably have some in every shard}
local P, now = KEYS[1], now_ms()
local A_MINUTE = 60000
redis.call('SET', P .. 'slow', table.concat({ARGV[1], ARGV[2], ARGV[3], ARGV[4]}, ' '))
redis.call('PEXPIRE', P .. 'slow', A_MINUTE)
for _, slots in ipairs({'slots', 'wide_slots'}) do redis.call('ZREMRANGEBYSCORE', P .. slots, '-inf', now - A_MINUTE) end
local better = redis.call('ZCARD', P .. 'leases') - redis.call('SCARD', P .. 'lowest')
for level = 0, LEVELS - 2 do
  better = better + redis.call('LLEN', P .. 'due:' .. level) + redis.call('LLEN', P .. 'new:' .. level)
    + redis.call('ZCOUNT', P .. 'ready:' .. level, '-inf', now + ARGV[5])
end
return {better, redis.call('ZCARD', P .. 'slots'), redis.call('ZCARD', P .. 'wide_slots')}
