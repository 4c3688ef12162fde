#!lua flags=allow-oom
-- Stores what a worker has counted in its shards, for all workers, until `kept_ms` after the last count.
-- KEYS
--   C          the crawl's own prefix
-- ARGV
--   kept_ms
-- each shard
--   shard
--   counts     "better sunk wide"
-- reply        shard, counts, shard, counts... of all shards, as their workers have counted last
local standings = C .. 'standings'
for i = 1, n_shard do redis.call('HSET', standings, shard_at(i)) end
if n_shard > 0 then redis.call('PEXPIRE', standings, kept_ms) end
return redis.call('HGETALL', standings)
