#!lua flags=no-writes
-- Returns the figures by which a worker decides whether it moves fingerprints to the store.
-- KEYS
--   P           the crawl's prefix in this shard
-- ARGV
-- reply
--   used        bytes that the server of the shard uses
--   limit       its `maxmemory`; half of the memory of its machine without a limit
--   hot         number of fingerprints in the engine
--   buckets     number of their buckets
local memory, known = redis.call('INFO', 'memory'), seen_set(P .. 'seen:', P .. 'n')
local function bytes(name) return tonumber(string.match(memory, '\n' .. name .. ':(%d+)') or '0') end
local used, limit = bytes('used_memory'), bytes('maxmemory')
if limit == 0 then limit = math.floor(bytes('total_system_memory') / 2) end
local hot, buckets = known.seen - (known.cold or 0), 2 ^ known.bits + known.split
return {used, limit, hot, buckets}
