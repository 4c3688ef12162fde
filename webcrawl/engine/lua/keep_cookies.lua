-- Stores the cookies of a jar for a site, unless the shard then has more entries or bytes than allowed.
-- Cookies that are not stored replace none: the entry is deleted, so that no worker reads outdated ones.
-- KEYS[1] the cookies of a shard; the field "bytes" is the sum of their sizes
-- ARGV    jar and site, their cookies, the most entries of a shard, the most bytes
-- reply   1 if they were stored, otherwise 0
local key, field, cookies = KEYS[1], ARGV[1], ARGV[2]
local before = redis.call('HSTRLEN', key, field)
local bytes = tonumber(redis.call('HGET', key, 'bytes') or 0) + #cookies - before
local entries = redis.call('HLEN', key) - redis.call('HEXISTS', key, 'bytes')
local is_new = before == 0 and redis.call('HEXISTS', key, field) == 0
if bytes > tonumber(ARGV[4]) or (is_new and entries >= tonumber(ARGV[3])) then
  if not is_new then
    redis.call('HDEL', key, field)
    redis.call('HINCRBY', key, 'bytes', -before)
  end
  return 0
end
redis.call('HSET', key, field, cookies, 'bytes', bytes)
return 1
