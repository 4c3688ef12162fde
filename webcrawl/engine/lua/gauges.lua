#!lua flags=allow-oom
-- Returns how the hosts and URLs of the shard are spread over states and levels. Reads only counters and random samples, so
-- the cost is the same for a crawl of any size.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   #most       hosts and leases in a sample
-- reply
--   hosts       {ready, waiting, leased, blocked}
--   by_level    ready or waiting hosts by best level
--   urls        URLs of the sampled hosts by level, and at other levels
--   ages        ages of the sampled leases, in ms
--   buckets     of the seen set in the store
local now = now_ms()
local waiting_low = redis.call('SCARD', P .. 'sunk') + redis.call('ZCARD', P .. 'wary')
local ready, waiting, by_level = 0, waiting_low, {}
for level = 0, LEVELS - 1 do
  local came = redis.call('LLEN', P .. 'due:' .. level) + redis.call('LLEN', P .. 'new:' .. level)
    + redis.call('ZCOUNT', P .. 'ready:' .. level, '-inf', now)
  local coming = redis.call('ZCOUNT', P .. 'ready:' .. level, '(' .. string.format('%.0f', now), '+inf')
  ready, waiting, by_level[level + 1] = ready + came, waiting + coming, came + coming
end
by_level[LEVELS] = by_level[LEVELS] + waiting_low

local urls = {}
for i = 1, LEVELS + 1 do urls[i] = 0 end
for _, name in ipairs(redis.call('HRANDFIELD', P .. 'queued', most)) do
  local host = host_of(name)
  local record = record_of(P, host)
  urls[LEVELS + 1] = urls[LEVELS + 1] + record.others
  for level = 0, LEVELS - 1 do
    if record.few and bit.band(record.mask, bit.lshift(1, level)) ~= 0 then
      urls[level + 1] = urls[level + 1] + #few_entries(record.few)
    elseif bit.band(record.mask, bit.lshift(1, level)) ~= 0 then
      urls[level + 1] = urls[level + 1] + level_length(P, host, level)
    end
  end
end

local ages = {}
for _, host in ipairs(redis.call('ZRANDMEMBER', P .. 'leases', most)) do
  -- a token is the time of the lease in microseconds
  local token = redis.call('HGET', P .. 'lease:' .. host, 'token')
  if token then ages[#ages + 1] = math.max(0, math.floor(now - token / 1000)) end
end
local hosts = {ready, waiting, redis.call('ZCARD', P .. 'leases'), redis.call('HLEN', P .. 'parked')}
local buckets = redis.call('ZCARD', P .. 'seen:cold')
return {hosts, by_level, urls, ages, buckets}
