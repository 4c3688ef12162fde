#!lua flags=allow-oom
-- Extends the leases of a worker, and returns the delays that operators set for its hosts.
-- KEYS
--   P            the crawl's prefix in this shard
--   H            the prefix of host records
-- ARGV
--   lease_ms
-- each lease
--   host, token
-- reply          for each lease, in order: the operator's delay in ms, -1 without one, -2 if the lease was lost
local delays, expiry = {}, now_ms() + lease_ms
for i = 1, n_lease do
  local host, token = lease_at(i)
  if holds(P, H, host, token) then
    hold(P, H, host, token, expiry)
    delays[i] = tonumber(redis.call('HGET', turn_key(H, host), 'delay')) or -1
  else
    delays[i] = -2
  end
end
return delays
