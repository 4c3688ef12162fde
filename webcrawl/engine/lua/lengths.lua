#!lua flags=no-writes
-- Returns the lengths of the queues of some hosts.
-- KEYS
--   P        the crawl's prefix in this shard
--   H        the prefix of host records
-- ARGV
-- list hosts
-- reply      number of URLs for each host
local lengths = {}
for i, host in ipairs(hosts) do lengths[i] = queue_length(P, host) end
return lengths
