-- Stores the cookies of a jar for a site, unless the shard would have more entries or bytes than allowed.
-- If the cookies are not stored, the old entry is deleted too, so that no worker reads outdated cookies.
-- KEYS
--   key             the cookies of a shard; the field "bytes" is the sum of their sizes
-- ARGV
--   field           jar and site
--   cookies
--   #most_jars      entries of a shard
--   #most_bytes     of a shard
-- reply             1 if they were stored, otherwise 0
local before = redis.call('HSTRLEN', key, field)
local bytes = tonumber(redis.call('HGET', key, 'bytes') or 0) + #cookies - before
local entries = redis.call('HLEN', key) - redis.call('HEXISTS', key, 'bytes')
local is_new = before == 0 and redis.call('HEXISTS', key, field) == 0
if bytes > most_bytes or (is_new and entries >= most_jars) then
  if not is_new then
    redis.call('HDEL', key, field)
    redis.call('HINCRBY', key, 'bytes', -before)
  end
  return 0
end
redis.call('HSET', key, field, cookies, 'bytes', bytes)
return 1
