#!lua flags=no-writes
-- Returns whether a URL is in the seen set.
-- KEYS
--   P       the crawl's prefix in this shard
-- ARGV
--   mark
-- reply     1 or 0; 2 if it may be in its cold bucket, and is not in the engine
local known = seen_set(P .. 'seen:', P .. 'n')
local hot, value = seen_bucket(known, mark)
if redis.call('SISMEMBER', hot, mark) == 1 then return 1 end
return known.cold and cold.maybe(cold.range_of(known, mark, tonumber(mark)), value) and 2 or 0
