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
--   sunk       owners of budgets with a host at the lowest level, without those that are known and their hosts
--   wide       owners that probably have such hosts in every shard
--   some       of these
local now, A_MINUTE, SOME, SAMPLE = now_ms(), 60000, 50, 100
local are_known = {}
for _, owner in ipairs(known) do are_known[owner] = true end

-- Whether a budget's owner is known, or a name below a known domain, or an address in a known network.
local function is_within_known(owner)
  if are_known[string.gsub(owner, '%d+$', '0/24', 1)] then return true end
  local domain = owner
  while domain do
    if are_known[domain] then return true end
    domain = string.match(domain, '^[^.]*%.(.+)$')
  end
  return false
end

-- Returns how many of the `sunk` owners of single hosts are known or within a known owner, by a sample: a large host of a
-- domain over its budget is over its own budget too, but does not belong to somebody else.
local function within_known(sunk)
  local sample, within = redis.call('ZRANGE', P .. 'slots', 0, SAMPLE - 1), 0
  for _, owner in ipairs(sample) do
    if is_within_known(owner) then within = within + 1 end
  end
  return math.floor(sunk * within / #sample + 0.5)
end

redis.call('SET', P .. 'slowdown', table.concat({factor, at_once, gap_ms, shards, longest}, ' '))
redis.call('PEXPIRE', P .. 'slowdown', A_MINUTE)
for _, slots in ipairs({'slots', 'wide_slots'}) do
  redis.call('ZREMRANGEBYSCORE', P .. slots, '-inf', now - A_MINUTE - longest * gap_ms)
end
wait_anew(P, H, now)
local better = better_hosts(P, now, soon_ms, LEVELS - 2, 'lowest')
local sunk, wide = redis.call('ZCARD', P .. 'slots'), redis.call('ZCARD', P .. 'wide_slots')
if sunk > 0 and #known > 0 then sunk = sunk - within_known(sunk) end
local some = redis.call('ZRANGE', P .. 'wide_slots', 0, SOME - 1)
return {better, sunk, wide, some}
