#!lua flags=allow-oom
-- Replaces the part of a bucket of host records by parts that a worker has written to the store, and removes the records
-- from the engine, except those that have changed since. Nothing changes if the bucket has changed since the worker has
-- read it, if another worker has moved one of the hosts since, whose record in the store may be later, or while the shard
-- is copied.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   segment     the new parts are in; "" = they are empty
--   fence       the lower end of the bucket
--   upper       that of the next bucket; "" = there is none
--   descriptor  of the part that the worker has read; "" = the bucket was empty
-- each piece    in order; the first has the lower end of the bucket
--   from        its lower end
--   part        its descriptor; "" = it is empty
--   filter
-- each host
--   name
--   facts       as they are in the new parts
-- reply         number of hosts that left the engine
if is_copied(P) then return 0 end
local batches = {}
for from = 1, n_host, 1000 do
  local names = {}
  for i = from, math.min(from + 999, n_host) do names[#names + 1] = (host_at(i)) end
  local packed, waking = cold_hosts.pack(P, names), redis.call('SMISMEMBER', P .. 'waking', unpack(names))
  for n = 1, #names do
    if packed[n] == '' or waking[n] == 1 then return 0 end
  end
  batches[#batches + 1] = {from, names, packed}
end
if not replace_cold(P, P .. 'records:', segment, fence, upper, descriptor, n_piece, piece_at) then return 0 end
cold_hosts.exist = true
local removed = 0
for _, batch in ipairs(batches) do
  local left, from, names, packed = {}, unpack(batch)
  for n = 1, #names do
    local name, facts = host_at(from + n - 1)
    if packed[n] == facts and cold_hosts.is_idle(P, H, name) then left[#left + 1] = name end
  end
  for _, fact in ipairs(#left > 0 and cold_hosts.FACTS or {}) do redis.call('HDEL', P .. fact, unpack(left)) end
  removed = removed + #left
end
return removed
