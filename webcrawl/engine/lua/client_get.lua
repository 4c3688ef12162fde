#!lua flags=allow-oom
-- Gives URLs that are due to a client. They are in transit until the client reports them, or their time is over.
-- KEYS
--   P                 the crawl's prefix in this shard
--   H                 the prefix of host records
-- ARGV
--   queue             "" = the queues that have waited longest
--   #queues           wanted queues
--   #urls             for each queue, also those in transit: a queue that has so many gives none
--   #most_urls        given by a queue in this call
--   #transit_ms       the time in transit
--   #default_delay    ms between two deliveries of a queue without a delay of its own
-- reply each
--   name              of the queue
--   records           URL, record, URL, record...
local now = now_ms()
local MOST_LOOKED_AT = 1000
local deliveries, given, looked_at = {}, 0, 0

-- Returns whether clients may have the turn of a queue now; if not, when to look again. `paced`: the end of a pause that
-- other clients left, which holds for workers only.
local function turn_of(host, shares, holds_it, held, due, paced)
  if (tonumber(held) or 0) > now and holds_it ~= clients.HOLDER then
    sharing.ask(P, H, host, shares or {}, now)
    return false, math.min(tonumber(held), now + clients.LOOK_AGAIN)
  end
  if (tonumber(due) or 0) > now and due ~= paced then return false, tonumber(due) end
  if shares and sharing.who_waits(P, shares, now) then
    sharing.ask(P, H, host, shares, now)
    return false, now + clients.LOOK_AGAIN
  end
  return true
end

-- Returns how many URLs of a queue may be given, or nil and when to look again; without a time, only a change helps.
local function allowed_of(queue_name, transit)
  local last, delay, blocked, limit = unpack(redis.call('HMGET', P .. 'client:queue:' .. queue_name, 'last', 'delay', 'blocked', 'limit'))
  local rested = math.max(last and tonumber(last) + (tonumber(delay) or default_delay) or 0, tonumber(blocked) or 0)
  if rested > now then return nil, rested end
  local out = redis.call('ZCARD', transit)
  if out >= urls then return nil, now + clients.LOOK_AGAIN end
  local most = math.min(urls, most_urls)
  if not limit then return most end
  local records, waiting = clients.keys(P, queue_name)
  local left = limit - (redis.call('HLEN', records) - redis.call('ZCARD', waiting)) -- the rest is completed or in transit
  if left <= 0 then return nil end
  return math.min(most, left)
end

local function records_of(records, some)
  local flat = {}
  for from = 1, #some, 1000 do
    local known = redis.call('HMGET', records, unpack(some, from, math.min(from + 999, #some)))
    for i, record in ipairs(known) do flat[#flat + 1], flat[#flat + 2] = some[from + i - 1], record end
  end
  return flat
end

-- Gives URLs of a queue; returns when to look again if there are none to give.
local function deliver(name)
  local records, waiting, transit = clients.keys(P, name)
  clients.take_back(P, name, now)
  local allowed, again = allowed_of(name, transit)
  if not allowed then return again end
  local some = redis.call('ZRANGEBYSCORE', waiting, '-inf', now, 'LIMIT', 0, allowed)
  if #some == 0 then return nil, true end
  local host = clients.host(name)
  local known = redis.call('HMGET', turn_key(H, host), 'shares', 'holder', 'held', 'until', 'paced')
  local shares = known[1] and cmsgpack.unpack(known[1])
  local may, later = turn_of(host, shares, unpack(known, 2, 5))
  if not may then return later end
  for _, url in ipairs(some) do
    redis.call('ZREM', waiting, url)
    redis.call('ZADD', transit, now + transit_ms, url)
  end
  redis.call('HSET', P .. 'client:queue:' .. name, 'last', now)
  clients.hold(P, H, host, now + transit_ms)
  if shares then
    local left = redis.call('ZCARD', waiting) > 0
    shares[P] = {sharing.of(P, shares, now) + #some, left and now or 0}
    redis.call('HSET', turn_key(H, host), 'shares', cmsgpack.pack(shares))
  end
  given = given + #some
  records = records_of(records, some)
  deliveries[#deliveries + 1] = {name, records}
  return nil, true
end

local function visit(name)
  local again, ranked = deliver(name)
  looked_at = looked_at + 1
  if ranked then return clients.rank(P, name, default_delay) end
  if again then return redis.call('ZADD', P .. 'client:ready', again, name) end
  redis.call('ZREM', P .. 'client:ready', name)
end

if queue ~= '' then
  visit(queue)
else
  local some
  repeat
    some = redis.call('ZRANGEBYSCORE', P .. 'client:ready', '-inf', now, 'LIMIT', 0, math.max(1, math.min(100, queues - #deliveries)))
    for _, name in ipairs(some) do
      if #deliveries < queues then visit(name) end
    end
  until #some == 0 or #deliveries >= queues or looked_at >= MOST_LOOKED_AT
end
clients.count(P, {queued = -given, leased = given})
return deliveries
