#!lua flags=allow-oom
-- Deletes a queue of clients with all its URLs, or only some URLs that are old enough.
-- KEYS
--   P                 the crawl's prefix in this shard
--   H                 the prefix of host records
-- ARGV
--   queue
--   #before           seconds since 1970: URLs that were stored earlier are deleted; "" = the whole queue
--   #default_delay    ms between two deliveries of a queue without a delay of its own
-- list urls
-- reply               number of deleted URLs
local now = now_ms()
local records, waiting, transit = clients.keys(P, queue)
local deleted, waited, out = 0, 0, 0
if before then
  for _, url in ipairs(urls) do
    local record = redis.call('HGET', records, url)
    if record and clients.created(record) < before then
      deleted = deleted + redis.call('HDEL', records, url)
      waited, out = waited + redis.call('ZREM', waiting, url), out + redis.call('ZREM', transit, url)
    end
  end
else
  deleted, waited, out = redis.call('HLEN', records), redis.call('ZCARD', waiting), redis.call('ZCARD', transit)
  redis.call('UNLINK', records, waiting, transit)
end
if out > 0 then clients.return_turn(P, H, queue, now, default_delay) end
if redis.call('EXISTS', records) == 0 then
  redis.call('UNLINK', P .. 'client:queue:' .. queue)
  redis.call('ZREM', P .. 'client:queues', queue)
end
clients.rank(P, queue, default_delay)
clients.count(P, {queued = -waited, leased = -out})
return deleted
