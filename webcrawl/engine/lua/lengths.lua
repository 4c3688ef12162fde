#!lua flags=no-writes
-- Returns the lengths of the queues of some hosts.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    hosts
-- reply   number of URLs for each host
local lengths = {}
for i, host in ipairs(ARGV) do lengths[i] = queue_length(KEYS[1], host) end
return lengths
