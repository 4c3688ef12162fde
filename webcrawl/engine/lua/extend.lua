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
-- `holds` and `hold` for many leases, with a third fewer commands
local delays, kept, expiry = {}, {}, now_ms() + lease_ms
for i = 1, n_lease do
  local host, token = lease_at(i)
  local key = turn_key(H, host)
  local known = redis.call('HMGET', key, 'holder', 'delay')
  local lease = redis.call('HMGET', P .. 'lease:' .. host, 'token', 'let_go')
  local is_held = known[1] == holder(P, H, host, token)
  if lease[1] == token and (is_held or lease[2]) then
    if is_held then
      redis.call('HSET', key, 'held', expiry)
      redis.call('PERSIST', key)
    end
    kept[#kept + 1], kept[#kept + 2] = expiry, host
    delays[i] = tonumber(known[2]) or -1
  else
    delays[i] = -2
  end
end
for from = 1, #kept, 1000 do redis.call('ZADD', P .. 'leases', unpack(kept, from, math.min(from + 999, #kept))) end
return delays
