-- Pages that are queued to be fetched again: `planned` has their URLs until they are settled, so that none is queued twice. A
-- planner must add pages sooner than KEPT_MS after it has read their rows. A table, because a script may have 200 local names.
local plan = {KEPT_MS = 600000}
-- Counts a page of a class and host; with TRAFFIC, each class is counted by itself too, for the host and for all hosts (of the
-- name ""). `class`: nil if it is not known.
function plan.count(P, host, class, by)
  local key, split = P .. 'planning', conf_of(P).split
  local function count_class(number, n)
    redis.call('HINCRBY', key, host .. ' ' .. number, n)
    redis.call('HINCRBY', key, ' ' .. number, n)
  end
  local left = redis.call('HINCRBY', key, host, by)
  if class and split then count_class(class, by) end
  if left > 0 then return end
  redis.call('HDEL', key, host)
  for number = 0, split and classes.UPDATE_CHK or -1 do
    -- pages whose class was not known when they were counted or settled
    local rest = tonumber(redis.call('HGET', key, host .. ' ' .. number) or 0)
    if rest ~= 0 then count_class(number, -rest) end
    redis.call('HDEL', key, host .. ' ' .. number)
    if redis.call('HGET', key, ' ' .. number) == '0' then redis.call('HDEL', key, ' ' .. number) end
  end
end
function plan.add(P, host, entry, due)
  if redis.call('ZADD', P .. 'planned', due, host .. path_of(entry)) == 1 then plan.count(P, host, classes.of(entry), 1) end
end
function plan.remove(P, host, url, class)
  if redis.call('ZREM', P .. 'planned', url) == 0 then return false end
  plan.count(P, host, class, -1)
  return true
end
-- Ends the plan of an entry that is settled. A planner that has read the row of the page before then adds nothing.
function plan.settle(P, host, entry, now)
  if string.byte(entry, 1) < DATED then return end
  local url = host .. path_of(entry)
  if not plan.remove(P, host, url, classes.of(entry)) then return end
  redis.call('ZREMRANGEBYSCORE', P .. 'visited', '-inf', now - plan.KEPT_MS)
  redis.call('ZADD', P .. 'visited', now, url)
end
