#!lua flags=allow-oom
-- Confirms that a segment is in the store: removes its parts from the outboxes, if they are still there.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    name of the segment, then for each part, in the order of plan_spill.lua: queue, offset, length, URLs, checksum
-- reply   how many parts are in use now; 0 if the segment was announced too long ago and may be deleted
local P, conf, name, used = KEYS[1], conf_of(KEYS[1]), ARGV[1], 0
local announced = tonumber(redis.call('ZSCORE', P .. 'unused', name))
if not announced or announced < 0 then return 0 end

for i = 2, #ARGV, 5 do
  local queue, n = ARGV[i], tonumber(ARGV[i + 3])
  local out, first = P .. 'out:' .. queue, conf.newest_first and -n or 0
  if not is_read(P, queue) and checksum(redis.call('LRANGE', out, first, first + n - 1)) == ARGV[i + 4] then
    if conf.newest_first then redis.call('LTRIM', out, 0, -n - 1) else redis.call('LTRIM', out, n, -1) end
    local descriptor = table.concat({name, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]}, ' ')
    redis.call(conf.newest_first and 'LPUSH' or 'RPUSH', P .. 'tail:' .. queue, descriptor)
    redis.call('HINCRBY', P .. 'tails', queue, n)
    redis.call('HINCRBY', P .. 'n', 'spilled', n)
    outbox_has(P, queue, redis.call('LLEN', out))
    used = used + 1
  end
end
if used > 0 then
  redis.call('HSET', P .. 'segments', name, used)
  redis.call('ZREM', P .. 'unused', name)
end
return used
