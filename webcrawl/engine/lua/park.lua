#!lua flags=allow-oom
-- Blocks or unblocks a host for this crawl. A worker that has leased the host loses the lease but notices only later, so
-- the host stays held until the lease would have expired, or the worker releases the host.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   host
--   action    "block" | "unblock"
-- reply       1
local now = now_ms()
if action == 'unblock' then
  unpark(P, H, host, now)
  return 1
end
park(P, host, 'blocked')
local token = redis.call('HGET', P .. 'lease:' .. host, 'token')
if token then
  local ours = holds(P, H, host, token)
  give_back(P, host, nil)
  if ours then keep_held(H, host, now) end
  wake_behind(P, H, host, now)
end
return 1
