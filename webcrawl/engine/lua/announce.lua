#!lua flags=allow-oom
-- Announces a segment that will be written, so that the engine knows every segment in the store, even if its worker dies.
-- KEYS
--   P         the crawl's prefix in this shard
-- ARGV
--   name      of the segment
-- reply       1
return redis.call('ZADD', P .. 'unused', now_ms(), name)
