#!lua flags=allow-oom
-- Repeats the lost reply of a lease call, with the leases that are still held. If the call itself has not arrived yet, it
-- will lease nothing.
-- KEYS
--   P              the crawl's prefix in this shard
--   H              the prefix of host records
-- ARGV
--   caller
--   number         of the call
--   lease_ms
-- reply each      as for lease.lua
--   host, token
--   failures       in a row
--   delay_ms       that an operator has set, or -1
--   urls           index, entry, index, entry...
--   answered       1 if the host has answered
--   worths         always empty
--   ruled_pages    that its rule allows, or -1
--   patterns       the records of its URL patterns, or ""
--   gap_ms         of its last lease, or 0
--   dust           evidence for its DUST rules, or nil
--   dust_off       rules that are switched off, or nil
--   over           owner whose budget is spent, and the penalty; "" = nobody
local now, leases = now_ms(), {}
local last, given = last_given(P, caller)
if last < tonumber(number) then
  remember_given(P, caller, number, {}, lease_ms)
  return leases
end
for i = 1, #given, 2 do
  local host, token = given[i], given[i + 1]
  if holds(P, H, host, token) then
    hold(P, H, host, token, now + lease_ms)
    local urls, fields = {}, redis.call('HGETALL', P .. 'lease:' .. host)
    for j = 1, #fields, 2 do
      local index = tonumber(fields[j])
      if index then
        urls[#urls + 1] = index
        urls[#urls + 1] = fields[j + 1]
      end
    end
    local known = redis.call('HMGET', turn_key(H, host), fields_of_lease(H, host))
    leases[#leases + 1] = lease_of(P, H, host, token, urls, now, nil, unpack(known, 1, 5))
  end
end
add_records(P, leases)
return leases
