#!lua flags=no-writes
-- Tells whether a URL is in the seen set.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    mark
-- reply   1 or 0
return redis.call('SISMEMBER', seen_bucket(seen_set(KEYS[1] .. 'seen:', KEYS[1] .. 'n'), ARGV[1]), ARGV[1])
