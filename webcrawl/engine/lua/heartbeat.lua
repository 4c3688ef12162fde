#!lua flags=allow-oom
-- Records that a worker is alive, and adds its tally to the crawl's totals. Dead workers move to `lost`. A tally whose
-- reply was lost is repeated, so permits and increments count only once for each number.
-- KEYS
--   C            the crawl's own prefix
-- ARGV
--   worker
--   #ttl_ms      until the worker counts as dead; 0 = it leaves now
--   state        "seeding" | "working"
--   permits      reserved pages to give back
--   #most_gap    longest gap in ms that counts as working time
--   number       of the tally
-- each total
--   name, increment
-- reply
--   seeding      number of live workers that still read their seeds
--   paused       1 if the crawl is paused
--   stops        how often an operator stopped the crawl
local now = now_ms()
local TALLY_MS = 86400000 -- longer than the worker stays in `workers`, because it may only be unreachable
local LOST_MS = 604800000 -- a week
local function drop(name)
  redis.call('ZREM', C .. 'workers', name)
  redis.call('SREM', C .. 'seeding', name)
  redis.call('HDEL', C .. 'permits', name)
  redis.call('HDEL', C .. 'holding', name)
end
local gone = redis.call('ZRANGEBYSCORE', C .. 'workers', '-inf', now, 'WITHSCORES')
if ttl_ms == 0 then drop(worker) else redis.call('ZADD', C .. 'workers', now + ttl_ms, worker) end
redis.call('HDEL', C .. 'lost', worker)
for i = 1, #gone, 2 do
  if gone[i] ~= worker then
    drop(gone[i])
    redis.call('HSET', C .. 'lost', gone[i], gone[i + 1])
    redis.call('PEXPIRE', C .. 'lost', LOST_MS)
  end
end
if ttl_ms > 0 then redis.call(state == 'seeding' and 'SADD' or 'SREM', C .. 'seeding', worker) end
-- working time is the union over all workers: each heartbeat adds the time since the last heartbeat of any worker
local gap = now - (tonumber(redis.call('HGET', C .. 'totals', 'beat')) or 0)
if gap > 0 and gap <= most_gap then redis.call('HINCRBY', C .. 'totals', 'active_ms', gap) end
redis.call('HSET', C .. 'totals', 'beat', ttl_ms == 0 and redis.call('ZCARD', C .. 'workers') == 0 and 0 or now)
local tally = C .. 'told:' .. worker
if tonumber(number) > (tonumber(redis.call('GET', tally)) or 0) then
  redis.call('SET', tally, number, 'PX', TALLY_MS)
  if permits ~= '0' and redis.call('HINCRBY', C .. 'permits', worker, -permits) <= 0 then
    redis.call('HDEL', C .. 'permits', worker)
  end
  for i = 1, n_total do
    local name, increment = total_at(i)
    redis.call('HINCRBY', C .. 'totals', name, increment)
  end
end
local seeding, paused = redis.call('SCARD', C .. 'seeding'), redis.call('HEXISTS', C .. 'info', 'paused')
local stops = tonumber(redis.call('HGET', C .. 'info', 'stops')) or 0
return {seeding, paused, stops}
