#!lua flags=allow-oom
-- Keep a host's URLs from all workers of this crawl, or no longer. A worker that has the host loses its lease;
-- it hears of that later, so nobody else gets the host before the lease would have run out, or its worker is done.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, "block" | "unblock"
-- reply   1
local P, H, host, now = KEYS[1], KEYS[2], ARGV[1], now_ms()
if ARGV[2] == 'unblock' then
  unpark(P, H, host, now)
  return 1
end
park(P, host, 'blocked')
local token = redis.call('HGET', P .. 'lease:' .. host, 'token')
if token then
  local ours = holds(P, H, host, token)
  give_back(P, host, nil)
  if ours then keep_held(H, host, now) end
end
return 1
