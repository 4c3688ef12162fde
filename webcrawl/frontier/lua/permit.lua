-- Reserve pages of a crawl's page limit for one worker. What a dead worker had reserved is free again.
-- KEYS[1] the crawl's own prefix
-- ARGV    worker, pages wanted, the crawl's limit
-- reply   pages granted
local C, now = KEYS[1], now_ms()
local free = ARGV[3] - (tonumber(redis.call('HGET', C .. 'totals', 'pages')) or 0)
local permits = redis.call('HGETALL', C .. 'permits')
for i = 1, #permits, 2 do
  local expiry = tonumber(redis.call('ZSCORE', C .. 'workers', permits[i])) or 0
  if expiry > now then free = free - permits[i + 1]
  else redis.call('HDEL', C .. 'permits', permits[i]) end
end
local granted = math.max(0, math.min(free, ARGV[2]))
if granted > 0 then redis.call('HINCRBY', C .. 'permits', ARGV[1], granted) end
return granted
