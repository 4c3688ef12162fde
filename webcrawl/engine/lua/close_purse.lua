#!lua flags=allow-oom
-- Closes purses: they get and spend nothing any more.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    ms for which a purse must have been idle, or "": only this one   purse
-- reply   {purse, number of its last call of receive.lua here, what it has in transit, ...}; in transit: a line for each
--         call, "shard number credit"
local P, now, reply = KEYS[1], now_ms(), {}
local purses = {ARGV[2]}
if ARGV[1] ~= '' then purses = redis.call('ZRANGEBYSCORE', P .. 'purses', '-inf', now - ARGV[1], 'LIMIT', 0, 100) end
for _, purse in ipairs(purses) do
  local key, got = purse_of(P, purse), last_received(P, purse)
  redis.call('HSET', key, 'closed', 1)
  note_received(P, purse, got .. ' closed')
  if not redis.call('ZSCORE', P .. 'purses', purse) then redis.call('PEXPIRE', key, PURSE_MS) end
  reply[#reply + 1] = purse
  reply[#reply + 1] = got
  reply[#reply + 1] = redis.call('HGET', key, 'transit') or ''
end
return reply
