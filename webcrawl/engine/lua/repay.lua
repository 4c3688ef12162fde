#!lua flags=allow-oom
-- Returns a borrowed turn of a host.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, name of the request, pause ms before the next request, ms after which the host's record may be forgotten
-- reply   1 if the request had the turn
local P, H, now = KEYS[1], KEYS[2], now_ms()
local host = ARGV[1]
if redis.call('HGET', turn_key(H, host), 'holder') ~= 'borrowed ' .. ARGV[2] then return 0 end
let_go(H, host, now, tonumber(ARGV[3]), tonumber(ARGV[4]))
wake_behind(P, H, host, now)
return 1
