#!lua flags=no-writes
-- Counts the queued URLs of a host at each priority level.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    host
-- reply   one number for each level, the best level first
local P, host, counts = KEYS[1], ARGV[1], {}
for level = 0, LEVELS - 1 do
  local queue = host .. ' ' .. level
  counts[level + 1] = redis.call('LLEN', P .. 'q:' .. queue) + redis.call('LLEN', P .. 'out:' .. queue)
    + (redis.call('HGET', P .. 'tails', queue) or 0)
end
local record = record_of(P, host)
if record.few then counts[best_level(record.mask) + 1] = #few_entries(record.few) end
return counts
