-- Removes those who waited for URLs of the live lane and have been answered.
-- KEYS
--   P     the crawl's prefix in this shard
-- ARGV
-- each ask
--   url
--   key
-- reply   one character for each ask, in order: "1" others wait for the URL still, "0" nobody does
local verdicts = {}
for i = 1, n_ask do
  local url, key = ask_at(i)
  local known = redis.call('HGET', P .. 'asks', url)
  local asks = known and cmsgpack.unpack(known) or {}
  asks[key] = nil
  verdicts[i] = next(asks) and '1' or '0'
  if next(asks) then
    redis.call('HSET', P .. 'asks', url, cmsgpack.pack(asks))
  elseif known then
    redis.call('HDEL', P .. 'asks', url)
  end
end
return table.concat(verdicts)
