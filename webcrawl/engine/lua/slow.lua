#!lua flags=allow-oom
-- Sets how much longer the gaps of hosts over a budget are, for a minute.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    ratio, how many hosts a domain may ask at once, the usual ms between two requests, number of shards, ms within
--         which a host counts as one that could be asked soon
-- reply   {hosts that have better URLs and could be asked soon, owners of budgets with hosts at the lowest level, such
--         owners that probably have some in every shard}; hosts that never answered do not count
local P, H, now = KEYS[1], KEYS[2], now_ms()
local A_MINUTE = 60000
redis.call('SET', P .. 'slow', table.concat({ARGV[1], ARGV[2], ARGV[3], ARGV[4]}, ' '))
redis.call('PEXPIRE', P .. 'slow', A_MINUTE)
for _, slots in ipairs({'slots', 'wide_slots'}) do
  redis.call('ZREMRANGEBYSCORE', P .. slots, '-inf', now - A_MINUTE - LONGEST * ARGV[3])
end
wait_anew(P, H, now)
local better = redis.call('ZCARD', P .. 'leases') - redis.call('SCARD', P .. 'lowest')
for level = 0, LEVELS - 2 do
  better = better + redis.call('LLEN', P .. 'due:' .. level) + redis.call('ZCOUNT', P .. 'ready:' .. level, '-inf', now + ARGV[5])
end
return {better, redis.call('ZCARD', P .. 'slots'), redis.call('ZCARD', P .. 'wide_slots')}
