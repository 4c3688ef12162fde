#!lua flags=no-writes
-- Counts the queued URLs of a host at each priority level.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    host
-- reply   level, number of URLs, level, number... of the levels that have URLs, the best level first
local P, host, counts = KEYS[1], ARGV[1], {}
local record = record_of(P, host)
for _, level in ipairs(levels_of(P, record)) do
  local queue = queue_of(host, level)
  counts[#counts + 1] = level
  counts[#counts + 1] = record.few and #few_entries(record.few)
    or redis.call('LLEN', P .. 'q:' .. queue) + redis.call('LLEN', P .. 'out:' .. queue)
      + (redis.call('HGET', P .. 'tails', queue) or 0)
end
return counts
