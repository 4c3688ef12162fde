#!lua flags=allow-oom
-- The reply to a call of lease.lua was lost. What it gave is given again, as far as it is still held; and if the call itself
-- is late, it gives nothing any more.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    caller, number of the call, lease ms
-- reply   as of lease.lua
local P, H, now, leases = KEYS[1], KEYS[2], now_ms(), {}
local number, given = last_given(P, ARGV[1])
if number < tonumber(ARGV[2]) then
  remember_given(P, ARGV[1], ARGV[2], {}, ARGV[3])
  return leases
end
for i = 1, #given, 2 do
  local host, token = given[i], given[i + 1]
  if holds(P, H, host, token) then
    hold(P, H, host, token, now + ARGV[3])
    local urls, fields = {}, redis.call('HGETALL', P .. 'lease:' .. host)
    for j = 1, #fields, 2 do
      local index = tonumber(fields[j])
      if index then
        urls[#urls + 1] = index
        urls[#urls + 1] = fields[j + 1]
      end
    end
    leases[#leases + 1] = lease_of(H, host, token, urls, now)
  end
end
return leases
