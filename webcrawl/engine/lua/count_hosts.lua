#!lua flags=allow-oom
-- Counts hosts that answered, or that could not be reached.
-- KEYS[1] a HyperLogLog, of at most 12 KB
-- ARGV    hosts
-- reply   1 if the count has changed, else 0
return redis.call('PFADD', KEYS[1], unpack(ARGV))
