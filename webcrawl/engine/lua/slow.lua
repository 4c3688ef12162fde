#!lua flags=allow-oom
-- Sets how much longer the gaps of hosts over a budget are, for a minute.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    factor for each unit of a penalty, how many hosts a domain may ask at once, the usual ms between two requests,
--         number of shards, the most by which a gap grows, ms within which a host counts as one that could be asked soon
-- reply   {hosts that have better URLs and could be asked soon, owners of budgets with hosts at the lowest level, such
--         owners that probably have some in every shard}; hosts that never answered do not count
local P, H, now = KEYS[1], KEYS[2], now_ms()
local A_MINUTE = 60000
redis.call('SET', P .. 'slowdown', table.concat(ARGV, ' ', 1, 5))
redis.call('PEXPIRE', P .. 'slowdown', A_MINUTE)
for _, slots in ipairs({'slots', 'wide_slots'}) do
  redis.call('ZREMRANGEBYSCORE', P .. slots, '-inf', now - A_MINUTE - ARGV[5] * ARGV[3])
end
wait_anew(P, H, now)
local better = redis.call('ZCARD', P .. 'leases') - redis.call('SCARD', P .. 'lowest')
for level = 0, LEVELS - 2 do
  better = better + redis.call('LLEN', P .. 'due:' .. level) + redis.call('ZCOUNT', P .. 'ready:' .. level, '-inf', now + ARGV[6])
end
return {better, redis.call('ZCARD', P .. 'slots'), redis.call('ZCARD', P .. 'wide_slots')}
