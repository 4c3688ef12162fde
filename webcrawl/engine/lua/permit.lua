#!lua flags=allow-oom
-- Reserves pages of the crawl's page limit for one worker. Reservations of dead workers are free again.
-- A worker gets at most its share of the pages that are left, so that no worker waits long for the reservations of another
-- (guided self-scheduling, Polychronopoulos and Kuck 1987).
-- KEYS
--   C            the crawl's own prefix
-- ARGV
--   worker
--   #wanted      pages
--   #limit       of the crawl
--   #reserved    pages that the worker has reserved, as far as replies have reached it
-- reply          pages granted
local now = now_ms()
local free = limit - (tonumber(redis.call('HGET', C .. 'totals', 'pages')) or 0) - reserved
local permits = redis.call('HGETALL', C .. 'permits')
for i = 1, #permits, 2 do
  if permits[i] ~= worker then
    local expiry = tonumber(redis.call('ZSCORE', C .. 'workers', permits[i])) or 0
    if expiry > now then free = free - permits[i + 1]
    else redis.call('HDEL', C .. 'permits', permits[i]) end
  end
end
local alive = math.max(1, redis.call('ZCOUNT', C .. 'workers', '(' .. now, '+inf'))
local granted = math.max(0, math.min(math.ceil(free / alive), wanted))
reserved = reserved + granted
if reserved > 0 then redis.call('HSET', C .. 'permits', worker, reserved)
else redis.call('HDEL', C .. 'permits', worker) end
return granted
