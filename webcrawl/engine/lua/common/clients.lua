-- Queues of the clients of an open protocol (webcrawl.urlfrontier). A queue has one turn, that of the host whose name it has, so
-- workers of other crawls do not ask the host while clients have its URLs. All clients count as one holder of the turn: their
-- crawls do not wait for each other. A table, because a script may have 200 local names.
local clients = {HOLDER = 'clients', LOOK_AGAIN = 200, QUIET = 3600000}
-- Returns the keys of a queue: its records, the URLs that wait, by date, and those in transit, by the end of their time.
function clients.keys(P, queue)
  return P .. 'client:urls:' .. queue, P .. 'client:waiting:' .. queue, P .. 'client:transit:' .. queue
end
-- Returns a host with the turn of a queue. A queue whose name cannot be that of a host has a turn of its own.
function clients.host(queue)
  if string.match(queue, '^[%w._-]+$') or string.match(queue, '^%[[%x:.]+%]$') then return 'https://' .. queue end
  return 'queue://' .. string.gsub(queue, '[^%w._-]', function(c) return string.format('%%%02X', string.byte(c)) end)
end
-- Returns seconds as five bytes, the form of the dates in a record: creation, next fetch, then what the client stored.
function clients.date(seconds) return struct.pack('>I5', math.max(0, math.min(seconds, 2 ^ 40 - 1))) end
function clients.created(record) return (struct.unpack('>I5', record)) end
-- Sets when a queue may be looked at again: when its first URL is due, its delay has passed, and its block has ended.
function clients.rank(P, queue, default_delay)
  local _, waiting, transit = clients.keys(P, queue)
  local first = tonumber(redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')[2])
  local back = tonumber(redis.call('ZRANGE', transit, 0, 0, 'WITHSCORES')[2])
  local due = math.min(first or math.huge, back or math.huge)
  if due == math.huge then return redis.call('ZREM', P .. 'client:ready', queue) end
  local last, delay, blocked = unpack(redis.call('HMGET', P .. 'client:queue:' .. queue, 'last', 'delay', 'blocked'))
  local rested = last and tonumber(last) + (tonumber(delay) or default_delay) or 0
  redis.call('ZADD', P .. 'client:ready', math.max(due, rested, tonumber(blocked) or 0), queue)
end
-- Takes the turn of a host, or keeps it for longer.
function clients.hold(P, H, host, expiry)
  local key, held = turn_key(H, host), expiry
  local known = redis.call('HGET', key, 'clients')
  local by = known and cmsgpack.unpack(known) or {}
  by[P] = math.max(by[P] or 0, expiry)
  for _, other in pairs(by) do held = math.max(held, other) end
  redis.call('HSET', key, 'held', held, 'holder', clients.HOLDER, 'clients', cmsgpack.pack(by))
  forget_at(H, host, held + clients.QUIET)
end
-- Gives the turn back, which workers then do not take before `due`. Nothing changes if a worker has it by now.
function clients.let_go(P, H, host, now, due)
  local key, held = turn_key(H, host), 0
  local holds_it, known, not_before = unpack(redis.call('HMGET', key, 'holder', 'clients', 'until'))
  if not known then return end
  local by = cmsgpack.unpack(known)
  by[P] = nil
  for _, expiry in pairs(by) do held = math.max(held, expiry) end
  if holds_it == clients.HOLDER and held > now then
    redis.call('HSET', key, 'held', held, 'clients', cmsgpack.pack(by))
    return
  end
  redis.call('HDEL', key, 'clients')
  if holds_it ~= clients.HOLDER then return end
  due = math.max(now, due)
  local paced = (tonumber(not_before) or 0) <= due and {'paced', due} or {}
  let_go(H, host, now, due - now, clients.QUIET, false, nil, paced)
end
-- Gives the turn back if no URL of the queue is in transit.
function clients.return_turn(P, H, queue, now, default_delay)
  local _, _, transit = clients.keys(P, queue)
  if redis.call('ZCOUNT', transit, '(' .. now, '+inf') > 0 then return end
  local last, delay = unpack(redis.call('HMGET', P .. 'client:queue:' .. queue, 'last', 'delay'))
  clients.let_go(P, H, clients.host(queue), now, (tonumber(last) or 0) + (tonumber(delay) or default_delay))
end
-- Adds to the counters of the crawl.
function clients.count(P, changes)
  for name, by in pairs(changes) do
    if by ~= 0 then redis.call('HINCRBY', P .. 'n', name, by) end
  end
end
-- Returns URLs whose time in transit is over to those that wait, at most a thousand.
function clients.take_back(P, queue, now)
  local _, waiting, transit = clients.keys(P, queue)
  local late = redis.call('ZRANGEBYSCORE', transit, '-inf', now, 'LIMIT', 0, 1000)
  for _, url in ipairs(late) do
    redis.call('ZREM', transit, url)
    redis.call('ZADD', waiting, now, url)
  end
  clients.count(P, {queued = #late, leased = -#late})
end
