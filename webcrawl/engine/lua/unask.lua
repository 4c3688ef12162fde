-- Removes those who waited for URLs of the live lane and have been answered.
-- KEYS
--   P     the crawl's prefix in this shard
-- ARGV
-- each ask
--   url
--   key
-- reply   number of asks that were removed
local removed = 0
for i = 1, n_ask do
  local url, key = ask_at(i)
  local known = redis.call('HGET', P .. 'asks', url)
  local asks = known and cmsgpack.unpack(known) or {}
  if asks[key] then removed, asks[key] = removed + 1, nil end
  if next(asks) then
    redis.call('HSET', P .. 'asks', url, cmsgpack.pack(asks))
  elseif known then
    redis.call('HDEL', P .. 'asks', url)
  end
end
return removed
