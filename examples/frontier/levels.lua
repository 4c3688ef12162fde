#!lua flags=no-writes
-- Counts the queued URLs of a host at each priority level.
-- KEYS
--   P    the crawl's prefix in this shard
--   H    the prefix of host records
-- ARGV
--   host
-- reply each
--   level, urls
local counts, record = {}, record_of(P, host)
for i, level in ipairs(levels_of(P, record)) do
  local queue = queue_of(host, level)
  local urls = record.few and #few_entries(record.few)
    or redis.call('LLEN', P .. 'q:' .. queue) + redis.call('LLEN', P .. 'out:' .. queue)
      + (redis.call('HGET', P .. 'tails', queue) or 0)
  counts[i] = {level, urls}
end
return counts
