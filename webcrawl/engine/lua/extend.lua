#!lua flags=allow-oom
-- The heartbeat of a worker: its leases last longer from now on, and it hears what an operator says of its hosts.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    lease ms, then pairs: host, token
-- reply   for each, in order, the delay in ms that an operator set for the host: -1 when there is none, -2 when the lease
--         has been lost
local P, H, delays = KEYS[1], KEYS[2], {}
local expiry = now_ms() + ARGV[1]
for i = 2, #ARGV, 2 do
  local host = ARGV[i]
  if holds(P, H, host, ARGV[i + 1]) then
    hold(P, H, host, ARGV[i + 1], expiry)
    delays[#delays + 1] = tonumber(redis.call('HGET', H .. host, 'delay')) or -1
  else
    delays[#delays + 1] = -2
  end
end
return delays
