#!lua flags=allow-oom
-- Sets, for a minute, by how much the gaps of hosts over a budget grow.
-- KEYS
--   P          the crawl's prefix in this shard
--   H          the prefix of host records
-- ARGV
--   factor     for each unit of a penalty
--   at_once    hosts of a domain that may be asked at once
--   gap_ms     the usual time between two requests
--   shards     number of shards
--   longest    the most by which a gap grows
--   soon_ms    time within which a host must be due to count for `better`
-- list known   owners with several hosts at the lowest level in some shard
-- reply        hosts that never answered do not count
--   better     hosts that have better URLs and could be asked soon
--   sunk       owners of budgets with a host at the lowest level, without those that are known
--   wide       owners that probably have such hosts in every shard
--   some       of these
local now, A_MINUTE, SOME = now_ms(), 60000, 50
redis.call('SET', P .. 'slowdown', table.concat({factor, at_once, gap_ms, shards, longest}, ' '))
redis.call('PEXPIRE', P .. 'slowdown', A_MINUTE)
for _, slots in ipairs({'slots', 'wide_slots'}) do
  redis.call('ZREMRANGEBYSCORE', P .. slots, '-inf', now - A_MINUTE - longest * gap_ms)
end
wait_anew(P, H, now)
local better = better_hosts(P, now, soon_ms, LEVELS - 2, 'lowest')
local sunk, wide = redis.call('ZCARD', P .. 'slots'), redis.call('ZCARD', P .. 'wide_slots')
for _, owner in ipairs(sunk > 0 and known or {}) do
  if redis.call('ZSCORE', P .. 'slots', owner) then sunk = sunk - 1 end
end
local some = redis.call('ZRANGE', P .. 'wide_slots', 0, SOME - 1)
return {better, sunk, wide, some}
