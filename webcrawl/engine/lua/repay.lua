#!lua flags=allow-oom
-- Returns a borrowed turn of a host.
-- KEYS
--   P            the crawl's prefix in this shard
--   H            the prefix of host records
-- ARGV
--   host
--   request      the name of the request
--   #pause_ms    before the next request
--   #quiet_ms    after which the host's record may be forgotten
-- reply          1 if the request had the turn
local now = now_ms()
if redis.call('HGET', turn_key(H, host), 'holder') ~= 'borrowed ' .. request then return 0 end
let_go(H, host, now, pause_ms, quiet_ms)
wake_behind(P, H, host, now)
return 1
