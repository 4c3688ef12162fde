#!lua flags=allow-oom
-- Gives Lambda the credit in a closed purse.
-- KEYS
--   P        the crawl's prefix in this shard
-- ARGV
--   purse
--   lost     credit in transit that did not arrive
-- reply      1, or 0 if the purse is not closed, or was emptied before
local key = purse_of(P, purse)
if redis.call('HEXISTS', key, 'closed') == 0 or redis.call('ZREM', P .. 'purses', purse) == 0 then return 0 end
local known = ledger_of(P)
known.pool = known.pool + (tonumber(redis.call('HGET', key, 'wallet')) or 0) + lost
redis.call('HDEL', key, 'wallet', 'transit')
redis.call('PEXPIRE', key, PURSE_MS)
save_ledger(P)
return 1
