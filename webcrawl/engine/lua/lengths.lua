#!lua flags=no-writes
-- How long the queues of some hosts are.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    hosts
-- reply   URLs, for each host
local lengths = {}
for i, host in ipairs(ARGV) do lengths[i] = queue_length(KEYS[1], host) end
return lengths
