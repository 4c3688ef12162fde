#!lua flags=allow-oom
-- Confirms that a segment is in the store: removes its entries from the outboxes, if they are still there.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   name      of the segment
-- each part   in the order of plan_spill.lua
--   queue, offset, length
--   #urls
--   sum       checksum
-- reply       number of parts that are in use now; 0 if the segment was announced too long ago and may be deleted
local conf, used = conf_of(P), 0
local announced = tonumber(redis.call('ZSCORE', P .. 'unused', name))
if not announced or announced < 0 then return 0 end

for i = 1, n_part do
  local queue, offset, length, urls, sum = part_at(i)
  local out, first = P .. 'out:' .. queue, conf.newest_first and -urls or 0
  if not is_read(P, queue) and checksum(redis.call('LRANGE', out, first, first + urls - 1)) == sum then
    if conf.newest_first then redis.call('LTRIM', out, 0, -urls - 1) else redis.call('LTRIM', out, urls, -1) end
    local descriptor = table.concat({name, offset, length, urls, sum}, ' ')
    redis.call(conf.newest_first and 'LPUSH' or 'RPUSH', P .. 'tail:' .. queue, descriptor)
    redis.call('HINCRBY', P .. 'tails', queue, urls)
    redis.call('HINCRBY', P .. 'n', 'spilled', urls)
    outbox_has(P, queue, redis.call('LLEN', out))
    used = used + 1
  end
end
if used > 0 then
  redis.call('HSET', P .. 'segments', name, used)
  redis.call('ZREM', P .. 'unused', name)
end
return used
