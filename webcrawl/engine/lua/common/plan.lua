-- Pages that are queued to be fetched again: `planned` has their URLs until they are settled, so that none is queued twice. A
-- planner must add pages sooner than KEPT_MS after it has read their rows. A table, because a script may have 200 local names.
local plan = {KEPT_MS = 600000}
function plan.add(P, host, url, due)
  if redis.call('ZADD', P .. 'planned', due, url) == 1 then redis.call('HINCRBY', P .. 'planning', host, 1) end
end
function plan.remove(P, host, url)
  if redis.call('ZREM', P .. 'planned', url) == 0 then return false end
  if redis.call('HINCRBY', P .. 'planning', host, -1) <= 0 then redis.call('HDEL', P .. 'planning', host) end
  return true
end
-- Ends the plan of an entry that is settled. A planner that has read the row of the page before then adds nothing.
function plan.settle(P, host, entry, now)
  if string.byte(entry, 1) < DATED then return end
  local url = host .. path_of(entry)
  if not plan.remove(P, host, url) then return end
  redis.call('ZREMRANGEBYSCORE', P .. 'visited', '-inf', now - plan.KEPT_MS)
  redis.call('ZADD', P .. 'visited', now, url)
end
