#!lua flags=allow-oom
-- Tells all workers what one of them has counted in its shards, for some time after the last of them told anything.
-- KEYS[1] the crawl's own prefix
-- ARGV    ms until all is forgotten, then pairs: shard, "better sunk wide"
-- reply   the same pairs of all shards, as their workers have counted last
local standings = KEYS[1] .. 'standings'
for i = 2, #ARGV, 2 do redis.call('HSET', standings, ARGV[i], ARGV[i + 1]) end
if #ARGV > 1 then redis.call('PEXPIRE', standings, ARGV[1]) end
return redis.call('HGETALL', standings)
