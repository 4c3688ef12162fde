-- Records of hosts and of owners of budgets that are in the store, because they had nothing to do for long
-- (webcrawl.frontier.cold_hosts). What is here is all that is known of a host, unless the host is in `waking`: then its
-- record in the store is still to be added. A host in `waking` is not leased. A table, because a script may have 200 local
-- names.
local cold_hosts = {FACTS = {'trust', 'spent', 'errors', 'budgets', 'patterns', 'dust', 'unknown'}, CHARGED_BITS = 2 ^ 20,
  HOUR_MS = 3600000}
-- Whether any records of this shard are in the store.
function cold_hosts.any(P)
  if cold_hosts.exist == nil then cold_hosts.exist = redis.call('EXISTS', P .. 'records:cold') == 1 end
  return cold_hosts.exist
end
function cold_hosts.is_waking(P, name) return cold_hosts.any(P) and redis.call('SISMEMBER', P .. 'waking', name) == 1 end
-- Returns the key of the cold bucket that may have a host, by its filter; false if none has it.
function cold_hosts.bucket(P, name)
  local number = number_of(name)
  local text = string.format('%.0f', number)
  local range = cold.range_of({prefix = P .. 'records:'}, text, number)
  return cold.maybe(range, bucket_value(text)) and range.key
end
-- Returns the descriptor of the part in the store that may have a host; "" if no part has it.
function cold_hosts.descriptor(P, name)
  local key = cold_hosts.bucket(P, name)
  return key and cold.descriptor(key) or ''
end
-- Asks workers for the record of a host that is needed, if it may be in the store. Returns whether it is asked for.
function cold_hosts.wake(P, name)
  if not cold_hosts.any(P) then return false end
  if cold_hosts.is_waking(P, name) then return true end
  if not cold_hosts.bucket(P, name) then return false end
  for _, fact in ipairs(cold_hosts.FACTS) do
    if redis.call('HEXISTS', P .. fact, name) == 1 then return false end
  end
  return redis.call('SADD', P .. 'waking', name) == 1
end
-- Returns the key of the owners that were charged in an hour, and the bit of an owner: two owners may have the same bit.
function cold_hosts.charged(P, owner, now)
  return P .. 'charged:' .. string.format('%.0f', math.floor(now / cold_hosts.HOUR_MS)), number_of(owner) % cold_hosts.CHARGED_BITS
end
-- Notes that the budget of an owner has changed, so that its record stays here. Only crawls with cold records need that.
function cold_hosts.note_charge(P, owner, now)
  if not cold_hosts.any(P) then return end
  local key, position = cold_hosts.charged(P, owner, now)
  redis.call('SETBIT', key, position, 1)
  if not cold_hosts.expires then cold_hosts.expires = redis.call('PEXPIRE', key, 3 * cold_hosts.HOUR_MS) end
end
-- Whether the budget of an owner has changed in this hour or in the last one.
function cold_hosts.is_charged(P, owner, now)
  for hours = 0, 1 do
    local key, position = cold_hosts.charged(P, owner, now - hours * cold_hosts.HOUR_MS)
    if redis.call('GETBIT', key, position) == 1 then return true end
  end
  return false
end
-- Whether a host has no URLs, no lease and no politeness record. Nobody knows that of a registered domain, whose hosts are in
-- all shards: an owner of a budget is idle if its budget did not change for an hour, and no host is over it.
function cold_hosts.is_idle(P, H, name)
  if cold_hosts.is_waking(P, name) or redis.call('EXISTS', turn_key(H, name)) == 1 then return false end
  if not string.find(name, '://', 1, true) then
    return redis.call('HEXISTS', P .. 'overs', name) == 0 and not cold_hosts.is_charged(P, name, now_ms())
  end
  return not has_urls(record_of(P, name)) and redis.call('EXISTS', P .. 'lease:' .. name) == 0
end
-- Returns for each of up to a thousand names what is known of it here, packed in the order of FACTS; '' for nothing.
function cold_hosts.pack(P, names)
  local packed, values = {}, {}
  if #names == 0 then return packed end
  for i, fact in ipairs(cold_hosts.FACTS) do values[i] = redis.call('HMGET', P .. fact, unpack(names)) end
  for n in ipairs(names) do
    local facts, any = {}, false
    for i in ipairs(cold_hosts.FACTS) do
      facts[i] = values[i][n]
      any = any or facts[i]
    end
    packed[n] = any and cmsgpack.pack(facts) or ''
  end
  return packed
end

-- Adds domains to those that link to an owner of a budget, 4 bytes each, up to `most`.
local function join_domains(known, more, most)
  local seen, parts = {}, {known}
  for i = 1, #known, 4 do seen[string.sub(known, i, i + 3)] = true end
  local n = #known / 4
  for i = 1, #more, 4 do
    local domain = string.sub(more, i, i + 3)
    if not seen[domain] and n < most then seen[domain], parts[#parts + 1], n = true, domain, n + 1 end
  end
  return table.concat(parts)
end
