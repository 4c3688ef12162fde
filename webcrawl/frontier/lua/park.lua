-- Keep a host's URLs from all workers of this crawl, or no longer. A worker that has the host loses its lease.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, "block" | "unblock"
-- reply   1
local P, H, host, now = KEYS[1], KEYS[2], ARGV[1], now_ms()
local QUIET = 3600000
if ARGV[2] == 'unblock' then
  unpark(P, H, host, now)
  return 1
end
park(P, host, 'blocked')
local token = redis.call('HGET', P .. 'lease:' .. host, 'token')
if token then
  local ours = holds(P, H, host, token)
  give_back(P, host, nil)
  if ours then let_go(H, host, now, tonumber(redis.call('HGET', H .. host, 'gap')) or 0, QUIET) end
end
return 1
