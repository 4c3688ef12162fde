-- Give a host up: what is queued for it becomes dead letters, at most a batch of it a call.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, reason, batch
-- reply   URLs buried by this call; call again until it is less than the batch
local P, now = KEYS[1], now_ms()
local mask = tonumber(redis.call('HGET', P .. 'mask', ARGV[1])) or 0
if mask == 0 then return 0 end
local level = best_level(mask)
local entries = pop(P, ARGV[1], tonumber(ARGV[3]))
for _, entry in ipairs(entries) do bury(P, ARGV[1], entry, ARGV[2], now) end
redis.call('HINCRBY', P .. 'n', 'queued', -#entries)
if is_parked(P, ARGV[1]) then redis.call('HINCRBY', P .. 'n', 'parked', -#entries) end
redis.call('ZREM', P .. 'ready:' .. level, ARGV[1])
make_ready(P, KEYS[2], ARGV[1], now)
return #entries
