#!lua flags=no-writes
-- Returns what the engine knows of hosts whose records are or were in the store.
-- KEYS
--   P        the crawl's prefix in this shard
-- ARGV
-- list names
-- reply
--   facts    of each name, packed; "" = the record in the store is all that is known
--   waking   1 for each name whose record in the store is to be added to these facts, else 0
local facts, waking = cold_hosts.pack(P, names), {}
for i, name in ipairs(names) do waking[i] = cold_hosts.is_waking(P, name) and 1 or 0 end
return {facts, waking}
