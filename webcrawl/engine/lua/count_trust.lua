#!lua flags=allow-oom
-- Counts what decides which hosts have to wait for hosts with more trust; see webcrawl.policies.trust.Standing.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   #soon_ms    time within which a host must be due to count for `better`
-- reply
--   better
--   pages
--   strayed
--   trusted     as text
--   least       as text
local now = now_ms()
local better, least = better_hosts(P, now, soon_ms, LEVELS - 1, 'strays'), 'inf'
for _ = 1, 100 do
  local first = redis.call('ZRANGE', P .. 'wary', 0, 0, 'WITHSCORES')
  if not first[1] then break end
  if level_at_hand(P, record_of(P, host_of(first[1]))) then
    least = first[2]
    break
  end
  redis.call('ZREM', P .. 'wary', first[1])
end
local pages, trusted = tonumber(redis.call('HGET', P .. 'n', 'done') or 0), redis.call('GET', P .. 'trusted') or '0'
local strayed = tonumber(redis.call('GET', P .. 'strayed') or 0)
return {better, pages, strayed, trusted, least}
