#!lua flags=allow-oom
-- Removes fingerprints from a bucket in the engine, because they are in cold buckets now. Those that a split of the bucket
-- has moved meanwhile stay.
-- KEYS
--   P           the crawl's prefix in this shard
-- ARGV
--   bucket      its number
--   segment     the last one whose parts are in use because of this move
-- list marks
-- reply         the number that was removed
local known = seen_set(P .. 'seen:', P .. 'n')
-- a server that was restarted may have lost the move: it keeps the order of its writes, so then it lost the last segment too
if redis.call('HEXISTS', P .. 'segments', segment) == 0 then return 0 end
local removed = redis.call('SREM', known.prefix .. bucket, unpack(marks))
known.cold = (known.cold or 0) + removed
settle_seen(known)
return removed
