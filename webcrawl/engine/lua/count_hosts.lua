#!lua flags=allow-oom
-- Count hosts that answered.
-- KEYS[1] a HyperLogLog, which has at most 12 KB
-- ARGV    hosts
-- reply   1 when the count has changed, else 0
return redis.call('PFADD', KEYS[1], unpack(ARGV))
