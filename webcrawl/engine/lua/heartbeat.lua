#!lua flags=allow-oom
-- Records that a worker is alive, and adds its tally to the crawl's totals. Dead workers move to `lost`.
-- KEYS[1] the crawl's own prefix
-- ARGV    worker, ms until it counts as dead (0 = it leaves now), "seeding" | "working", reserved pages to give back,
--         longest gap in ms that counts as working time, the tally's number, then pairs: counter, increment.
--         A tally whose reply was lost is repeated: pages and increments count only once for each number.
-- reply   {number of live workers that still read their seeds, 1 if the crawl is paused, how often it was stopped}
local C, now = KEYS[1], now_ms()
local worker, ttl = ARGV[1], tonumber(ARGV[2])
local TOLD_MS = 86400000 -- longer than the worker stays in `workers`, because it may only be unreachable
local LOST_MS = 604800000 -- a week
local function drop(name)
  redis.call('ZREM', C .. 'workers', name)
  redis.call('SREM', C .. 'seeding', name)
  redis.call('HDEL', C .. 'permits', name)
  redis.call('HDEL', C .. 'holding', name)
end
local gone = redis.call('ZRANGEBYSCORE', C .. 'workers', '-inf', now, 'WITHSCORES')
if ttl == 0 then drop(worker) else redis.call('ZADD', C .. 'workers', now + ttl, worker) end
redis.call('HDEL', C .. 'lost', worker)
for i = 1, #gone, 2 do
  if gone[i] ~= worker then
    drop(gone[i])
    redis.call('HSET', C .. 'lost', gone[i], gone[i + 1])
    redis.call('PEXPIRE', C .. 'lost', LOST_MS)
  end
end
if ttl > 0 then redis.call(ARGV[3] == 'seeding' and 'SADD' or 'SREM', C .. 'seeding', worker) end
-- working time is the union over all workers: each heartbeat adds the time since the last one of any worker
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
return {
  redis.call('SCARD', C .. 'seeding'),
  redis.call('HEXISTS', C .. 'info', 'paused'),
  tonumber(redis.call('HGET', C .. 'info', 'stops')) or 0,
}
