#!lua flags=allow-oom
-- A worker says that it lives and adds what it did to the crawl's totals.
-- KEYS[1] the crawl's own prefix
-- ARGV    worker, ms until it counts as dead (0 = it leaves now), "seeding" | "working", permits no longer needed,
--         longest gap in ms that still counts as time worked, the tally's number, then pairs: counter, increment
--         A tally comes again when its reply was lost: permits and increments count only under a number not known yet.
-- reply   {the number of live workers that are still reading their seeds, 1 when the crawl is paused}
local C, now = KEYS[1], now_ms()
local worker, ttl = ARGV[1], tonumber(ARGV[2])
local TOLD_MS = 86400000 -- outlives the worker's name in `workers`: it may only be out of reach
local gone = redis.call('ZRANGEBYSCORE', C .. 'workers', '-inf', now)
if ttl == 0 then gone[#gone + 1] = worker else redis.call('ZADD', C .. 'workers', now + ttl, worker) end
for _, name in ipairs(gone) do
  if name ~= worker or ttl == 0 then
    redis.call('ZREM', C .. 'workers', name)
    redis.call('SREM', C .. 'seeding', name)
    redis.call('HDEL', C .. 'permits', name)
    redis.call('HDEL', C .. 'holding', name)
  end
end
if ttl > 0 then redis.call(ARGV[3] == 'seeding' and 'SADD' or 'SREM', C .. 'seeding', worker) end
-- time worked is the union over all workers: each beat adds what passed since anybody's last one
local gap = now - (tonumber(redis.call('HGET', C .. 'totals', 'beat')) or 0)
if gap > 0 and gap <= tonumber(ARGV[5]) then redis.call('HINCRBY', C .. 'totals', 'active_ms', gap) end
redis.call('HSET', C .. 'totals', 'beat', ttl == 0 and redis.call('ZCARD', C .. 'workers') == 0 and 0 or now)
local told = C .. 'told:' .. worker
if tonumber(ARGV[6]) > (tonumber(redis.call('GET', told)) or 0) then
  redis.call('SET', told, ARGV[6], 'PX', TOLD_MS)
  if ARGV[4] ~= '0' and redis.call('HINCRBY', C .. 'permits', worker, -ARGV[4]) <= 0 then
    redis.call('HDEL', C .. 'permits', worker)
  end
  for i = 7, #ARGV, 2 do redis.call('HINCRBY', C .. 'totals', ARGV[i], ARGV[i + 1]) end
end
return {redis.call('SCARD', C .. 'seeding'), redis.call('HEXISTS', C .. 'info', 'paused')}
