#!lua flags=no-writes
-- Returns whether a URL is in the seen set.
-- KEYS
--   P       the crawl's prefix in this shard
-- ARGV
--   mark
-- reply     1 or 0
return redis.call('SISMEMBER', seen_bucket(seen_set(P .. 'seen:', P .. 'n'), mark), mark)
