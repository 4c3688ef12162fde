-- Pages that are queued to be fetched again: `planned` has their URLs until they are settled, so that none is queued twice.

local KEPT_MS = 600000 -- a planner must add pages sooner than this after it has read their rows

local function plan_url(P, host, url, due)
  if redis.call('ZADD', P .. 'planned', due, url) == 1 then redis.call('HINCRBY', P .. 'planning', host, 1) end
end

local function unplan_url(P, host, url)
  if redis.call('ZREM', P .. 'planned', url) == 0 then return false end
  if redis.call('HINCRBY', P .. 'planning', host, -1) <= 0 then redis.call('HDEL', P .. 'planning', host) end
  return true
end

-- Ends the plan of an entry that is settled. A planner that has read the row of the page before then adds nothing.
local function unplan(P, host, entry, now)
  if string.byte(entry, 1) < DATED then return end
  local url = host .. path_of(entry)
  if not unplan_url(P, host, url) then return end
  redis.call('ZREMRANGEBYSCORE', P .. 'visited', '-inf', now - KEPT_MS)
  redis.call('ZADD', P .. 'visited', now, url)
end
