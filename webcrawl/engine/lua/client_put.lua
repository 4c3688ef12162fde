-- Stores URLs in the queues of clients: discovered URLs if they are new, known URLs anyway. A known URL is no longer in transit.
-- KEYS
--   P                 the crawl's prefix in this shard
--   H                 the prefix of host records
-- ARGV
--   #default_delay    ms between two deliveries of a queue without a delay of its own
-- each queue
--   queue
--   #urls             number of its URLs; the URLs come in the order of the queues
-- each url
--   url
--   #date             of the next fetch, seconds since 1970; 0 = never, -1 = the URL was discovered
--   data              what the client stores with it
-- reply               one character for each URL, in order: "1" stored, "0" known already
local now = now_ms()
local verdicts, last, added, queued, leased, done = {}, 0, 0, 0, 0, 0
local second = clients.date(math.floor((now - ms_ahead()) / 1000))

-- Adds URLs to a sorted set in few commands, and empties the list: score, URL, score, URL...
local function add_all(waiting, fresh)
  for from = 1, #fresh, 1000 do redis.call('ZADD', waiting, unpack(fresh, from, math.min(from + 999, #fresh))) end
  for i = #fresh, 1, -1 do fresh[i] = nil end
end

-- Updates a known URL, or adds it; returns whether it was in transit.
local function update(records, waiting, transit, url, date, data)
  local old = redis.call('HGET', records, url)
  redis.call('HSET', records, url, (old and string.sub(old, 1, 5) or second) .. clients.date(date) .. data)
  local waited, was_out = redis.call('ZREM', waiting, url), redis.call('ZREM', transit, url)
  if not old then added = added + 1 end
  queued, leased = queued - waited, leased - was_out
  if date > 0 then
    redis.call('ZADD', waiting, date * 1000 + ms_ahead(), url)
    queued = queued + 1
  elseif not old or waited + was_out > 0 then
    done = done + 1
  end
  return was_out == 1
end

for i = 1, n_queue do
  local queue, urls = queue_at(i)
  local records, waiting, transit = clients.keys(P, queue)
  local fresh, changed, returned = {}, false, false
  for j = last + 1, last + urls do
    local url, date, data = url_at(j)
    local is_stored = date >= 0 or redis.call('HSETNX', records, url, second .. second .. data) == 1
    if date >= 0 then
      add_all(waiting, fresh) -- one of these may be the same URL
      returned = update(records, waiting, transit, url, date, data) or returned
    elseif is_stored then
      fresh[#fresh + 1], fresh[#fresh + 2] = now, url
      added, queued = added + 1, queued + 1
    end
    verdicts[j], changed = is_stored and '1' or '0', changed or is_stored
  end
  last = last + urls
  add_all(waiting, fresh)
  if returned then clients.return_turn(P, H, queue, now, default_delay) end
  if changed then
    redis.call('ZADD', P .. 'client:queues', 'NX', now, queue)
    clients.rank(P, queue, default_delay)
  end
end

clients.count(P, {added = added, queued = queued, leased = leased, done = done})
return table.concat(verdicts)
