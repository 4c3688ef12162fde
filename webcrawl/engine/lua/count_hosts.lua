#!lua flags=allow-oom
-- Counts hosts that answered, or that could not be reached.
-- KEYS
--   key    a HyperLogLog, of at most 12 KB
-- ARGV
-- list hosts
-- reply    1 if the count has changed, else 0
return redis.call('PFADD', key, unpack(hosts))
