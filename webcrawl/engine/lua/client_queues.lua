#!lua flags=allow-oom
-- Reads the states of queues of clients, in the order in which they got their first URL.
-- KEYS
--   P           the crawl's prefix in this shard
-- ARGV
--   queue       "" = several queues
--   #start      position of the first queue
--   #most       queues to read
-- reply each
--   name        of the queue
--   known       URLs
--   later       URLs that wait for their date, or are due
--   due         URLs that may be fetched now; 0 while the queue is blocked
--   out         URLs in transit
local now = now_ms()
local names = {queue}
if queue == '' then names = redis.call('ZRANGE', P .. 'client:queues', start, start + most - 1) end
local rows = {}
for i, name in ipairs(names) do
  local records, waiting, transit = clients.keys(P, name)
  local out, late = redis.call('ZCOUNT', transit, '(' .. now, '+inf'), redis.call('ZCOUNT', transit, '-inf', now)
  local due = redis.call('ZCOUNT', waiting, '-inf', now) + late
  local blocked = tonumber(redis.call('HGET', P .. 'client:queue:' .. name, 'blocked') or 0)
  if blocked > now then due = 0 end
  local known, later = redis.call('HLEN', records), redis.call('ZCARD', waiting) + late
  rows[i] = {name, known, later, due, out}
end
return rows
