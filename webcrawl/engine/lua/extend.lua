#!lua flags=allow-oom
-- Extends the leases of a worker, and returns the delays that operators set for its hosts.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    lease ms, then pairs: host, token
-- reply   for each host, in order: the operator's delay in ms, -1 without one, -2 if the lease was lost
local P, H, delays = KEYS[1], KEYS[2], {}
local expiry = now_ms() + ARGV[1]
for i = 2, #ARGV, 2 do
  local host = ARGV[i]
  if holds(P, H, host, ARGV[i + 1]) then
    hold(P, H, host, ARGV[i + 1], expiry)
    delays[#delays + 1] = tonumber(redis.call('HGET', turn_key(H, host), 'delay')) or -1
  else
    delays[#delays + 1] = -2
  end
end
return delays
