#!lua flags=allow-oom
-- Repeats the reply of a lease call that was lost, with the leases still held. If the call itself has not arrived yet, it
-- will lease nothing.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    caller, number of the call, lease ms
-- reply   as for lease.lua
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
    leases[#leases + 1] = lease_of(P, H, host, token, urls, now)
  end
end
return leases
