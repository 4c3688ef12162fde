#!lua flags=allow-oom
-- Appends the next part of a queue, which was read from the store or is lost, to its hot list.
-- KEYS
--   P             the crawl's prefix in this shard
--   H             the prefix of host records
-- ARGV
--   host
--   #level
--   descriptor
--   state         "found" | "lost"
-- list entries
-- reply           1; 0 if this part is not the next one
local now, queue, record = now_ms(), queue_of(host, level), record_of(P, host)
if redis.call('LINDEX', P .. 'tail:' .. queue, 0) ~= descriptor then return 0 end
-- the hot list of a stack may have overflowed meanwhile; the outbox is newer than the parts in the store
if conf_of(P).newest_first and redis.call('EXISTS', P .. 'out:' .. queue) == 1 then
  redis.call('SREM', P .. 'hungry', queue)
  feed(P, record, level)
  save_record(P, record)
  make_ready(P, H, host, now)
  return 0
end

redis.call('LPOP', P .. 'tail:' .. queue)
local _, urls = part_of(descriptor)
if state == 'found' then
  append(P, host, queue, entries)
else
  redis.call('HINCRBY', P .. 'n', 'lost_segments', 1)
  redis.call('HINCRBY', P .. 'n', 'queued', -urls)
  count_entries(P, record, level, -urls)
  if is_parked(P, host) then redis.call('HINCRBY', P .. 'n', 'parked', -urls) end
end
if redis.call('HINCRBY', P .. 'tails', queue, -urls) <= 0 then redis.call('HDEL', P .. 'tails', queue) end
part_is_done(P, descriptor, now)
redis.call('SREM', P .. 'hungry', queue)

feed(P, record, level)
if redis.call('EXISTS', P .. 'q:' .. queue) == 0 and not is_closed(P, record, level) then drop_level(P, record, level) end
save_record(P, record)
make_ready(P, H, host, now)
return 1
