-- Stores an operator's setting for a host, known or not.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, "delay" (ms between requests, -1 = none) or "until" (ms from now before which it is not leased; an
--         earlier time than the stored one changes nothing), value
-- reply   1
local P, H, now = KEYS[1], KEYS[2], now_ms()
local host, field, value = ARGV[1], ARGV[2], tonumber(ARGV[3])
if field == 'until' then
  local before = tonumber(redis.call('HGET', turn_key(H, host), 'until')) or 0
  local due = math.max(before, now + value)
  if due > before then redis.call('HDEL', turn_key(H, host), 'asked') end
  redis.call('HSET', turn_key(H, host), 'until', due)
  local record = record_of(P, host)
  local level = standing(P, record)
  if level then redis.call('ZADD', P .. 'ready:' .. level, 'XX', due, record.name) end
elseif value < 0 then
  redis.call('HDEL', turn_key(H, host), 'delay')
else
  redis.call('HSET', turn_key(H, host), 'delay', value)
end
redis.call('HSET', turn_key(H, host), 'kept', 1)
redis.call('PERSIST', turn_key(H, host))
return 1
