-- Stores the cookies of a jar for a site, unless the shard already has as many others as allowed.
-- KEYS[1] the cookies of a shard
-- ARGV    jar and site, their cookies, the most entries of a shard
-- reply   1 if they were stored, otherwise 0
local known = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not known and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
