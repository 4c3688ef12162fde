#!lua flags=no-writes
-- Returns the numbers of queued URLs of some hosts; the old entry of a URL that was queued again does not count.
-- KEYS
--   P        the crawl's prefix in this shard
--   H        the prefix of host records
-- ARGV
-- list hosts
-- reply      number of URLs for each host
local lengths = {}
for i, host in ipairs(hosts) do
  local overtaken = redis.call('HGET', P .. 'overtaken', host) or 0
  lengths[i] = math.max(0, queue_length(P, host) - overtaken)
end
return lengths
