#!lua flags=allow-oom
-- Adds records of the store to what the engine knows of hosts, which may then be leased. Skips hosts that do not wait for it,
-- and those whose bucket has changed since a worker has read it.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   #most       domains counted for each owner of a budget
-- each host
--   name
--   descriptor  of the part that the worker has read
--   facts       packed; "" = the part has no record of this host
-- reply         number of hosts that no longer wait
local now, woken = now_ms(), 0

-- Only budgets grow while their record is in the store.
local function add_fact(fact, name, value)
  if redis.call('HSETNX', P .. fact, name, value) == 1 or fact ~= 'budgets' then return end
  local here = redis.call('HGET', P .. fact, name)
  local spent = math.min(struct.unpack('<I4', here) + struct.unpack('<I4', value), 4294967295)
  local domains = join_domains(string.sub(value, 5), string.sub(here, 5), most)
  redis.call('HSET', P .. fact, name, struct.pack('<I4', spent) .. domains)
end

for i = 1, n_host do
  local name, descriptor, facts = host_at(i)
  if cold_hosts.is_waking(P, name) and cold_hosts.descriptor(P, name) == descriptor then
    local values = facts ~= '' and cmsgpack.unpack(facts) or {}
    for n, fact in ipairs(cold_hosts.FACTS) do
      if values[n] then add_fact(fact, name, values[n]) end
    end
    redis.call('SREM', P .. 'waking', name)
    woken = woken + 1
    if string.find(name, '://', 1, true) then
      -- a record without trust, so that a gift does not ask for the record again
      if facts == '' then redis.call('HSETNX', P .. 'trust', name, struct.pack('<ddI4', 0, 0, 0)) end
      make_ready(P, H, name, now)
      save_record(P, record_of(P, name))
    end
  end
end
return woken
