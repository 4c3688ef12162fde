-- Makes one worker the planner of the crawl, and counts the visits of pages by all workers. The planner takes the number; what
-- a planner that dies has taken is lost, and only makes the threshold a little older.
-- KEYS
--   C            the crawl's own prefix
-- ARGV
--   worker
--   #lease_ms
--   visits       of known pages by this worker since its last call
-- reply
--   plans        1 if the worker is the planner
--   visits       of all workers, for the planner
--   threshold    of crawl values, "" before the first
local key, holder = C .. 'recrawl', redis.call('GET', C .. 'planner')
local plans = (not holder or holder == worker) and 1 or 0
local threshold = redis.call('HGET', key, 'threshold') or ''
visits = redis.call('HINCRBY', key, 'visits', visits)
if plans == 1 then
  redis.call('SET', C .. 'planner', worker, 'PX', lease_ms)
  redis.call('HDEL', key, 'visits')
end
return {plans, visits, threshold}
