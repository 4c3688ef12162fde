#!lua flags=allow-oom
-- Stores a worker's counts of its shards, for all workers, until `kept_ms` after the last count.
-- KEYS
--   C          the crawl's own prefix
-- ARGV
--   kept_ms
-- each shard
--   shard
--   counts     "better sunk wide"
-- reply        shard, counts, shard, counts...: the last counts of all shards
local standings = C .. 'standings'
for i = 1, n_shard do redis.call('HSET', standings, shard_at(i)) end
if n_shard > 0 then redis.call('PEXPIRE', standings, kept_ms) end
return redis.call('HGETALL', standings)
