-- Stores an operator's setting for a host, known or not.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   host
--   field     "delay" | "until"
--   #value    "delay": ms between requests, -1 = no delay. "until": ms from now before which the host is not leased; has no
--             effect if the stored time is later
-- reply       1
local now, key = now_ms(), turn_key(H, host)
if field == 'until' then
  local before = tonumber(redis.call('HGET', key, 'until')) or 0
  local due = math.max(before, now + value)
  if due > before then redis.call('HDEL', key, 'asked') end
  redis.call('HSET', key, 'until', due)
  local record = record_of(P, host)
  local level = standing(P, record)
  if level then redis.call('ZADD', P .. 'ready:' .. level, 'XX', due, record.name) end
elseif value < 0 then
  redis.call('HDEL', key, 'delay')
else
  redis.call('HSET', key, 'delay', value)
end
redis.call('HSET', key, 'kept', 1)
redis.call('PERSIST', key)
return 1
