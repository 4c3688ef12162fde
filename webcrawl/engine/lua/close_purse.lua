#!lua flags=allow-oom
-- Closes purses: a closed purse neither gets nor spends credit.
-- KEYS
--   P          the crawl's prefix in this shard
-- ARGV
--   idle_ms    closes purses that were idle for this time; "" = closes only `name`
--   name
-- reply each
--   purse
--   got        number of its last call of receive.lua here
--   transit    credit in transit: a line for each call, "shard number credit"
local now, closed, purses = now_ms(), {}, {name}
if idle_ms ~= '' then purses = redis.call('ZRANGEBYSCORE', P .. 'purses', '-inf', now - idle_ms, 'LIMIT', 0, 100) end
for i, purse in ipairs(purses) do
  local key, got = purse_of(P, purse), last_received(P, purse)
  redis.call('HSET', key, 'closed', 1)
  note_received(P, purse, got .. ' closed')
  if not redis.call('ZSCORE', P .. 'purses', purse) then redis.call('PEXPIRE', key, PURSE_MS) end
  local transit = redis.call('HGET', key, 'transit') or ''
  closed[i] = {purse, got, transit}
end
return closed
