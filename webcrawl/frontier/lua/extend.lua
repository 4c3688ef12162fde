-- The heartbeat of a worker: its leases last longer from now on.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    lease ms, then pairs: host, token
-- reply   the hosts whose lease has been lost
local P, H, lost = KEYS[1], KEYS[2], {}
local expiry = now_ms() + ARGV[1]
for i = 2, #ARGV, 2 do
  local host = ARGV[i]
  if holds(P, H, host, ARGV[i + 1]) then
    hold(P, H, host, ARGV[i + 1], expiry)
  else
    lost[#lost + 1] = host
  end
end
return lost
