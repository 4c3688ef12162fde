-- The trust of hosts (webcrawl.policies.trust). A host ahead of its share is in `wary` instead of the lists of ready hosts. A
-- table, because a script may have 200 local names.
local trust = {UNKNOWN = 1e15, OVER = 4, stored = {}, changed = {}, more = 0}
-- Returns what a host got, what it has left to give, and to how many hosts it gave.
function trust.of(P, host)
  local stored = trust.stored[host]
  if stored == nil then stored = redis.call('HGET', P .. 'trust', host) end
  if not stored then return 0, 0, 0 end
  return struct.unpack('<ddI4', stored)
end
-- Reads the trust of up to a thousand hosts together.
function trust.read_all(P, hosts)
  if #hosts == 0 then return end
  for i, stored in ipairs(redis.call('HMGET', P .. 'trust', unpack(hosts))) do trust.stored[hosts[i]] = stored end
end
-- Reads together what decides whether up to a thousand hosts are ahead of their shares.
function trust.read(P, host_records)
  if #host_records == 0 or trust.limits(P) == math.huge then return end
  local hosts = {}
  for i, record in ipairs(host_records) do hosts[i] = record.host end
  trust.read_all(P, hosts)
  local spent = redis.call('HMGET', P .. 'spent', unpack(hosts))
  for i, record in ipairs(host_records) do record.spent = spent[i] end
end
-- Changes the trust of a host; call trust.save last.
function trust.put(host, amount, left, given, more)
  trust.stored[host] = struct.pack('<ddI4', amount, left, given)
  trust.changed[host], trust.more = true, trust.more + more
end
-- Stores the trust that has changed, and adds to the sum of the shard.
function trust.save(P)
  local flat = {}
  for host in pairs(trust.changed) do
    flat[#flat + 1] = host
    flat[#flat + 1] = trust.stored[host]
  end
  for from = 1, #flat, 2000 do redis.call('HSET', P .. 'trust', unpack(flat, from, math.min(from + 1999, #flat))) end
  if trust.more > 0 then redis.call('INCRBYFLOAT', P .. 'trusted', string.format('%.17g', trust.more)) end
end
-- Returns the most that a page may cost, and how many pages that cost more may be fetched now (-1 for any number).
function trust.limits(P)
  if not trust.most then
    local most, strays = string.match(redis.call('GET', P .. 'fairness') or '', '^(%S+) (%S+)$')
    trust.most, trust.strays = tonumber(most) or math.huge, tonumber(strays) or -1
  end
  return trust.most, trust.strays
end
-- Returns the cost of the next page of a host: pages for each unit of trust; more over a budget, while hosts with better
-- URLs slow the host down.
function trust.cost(P, H, record)
  local amount = trust.of(P, record.host)
  if amount == 0 then return trust.UNKNOWN end
  local cost = (spent_by(P, record) + 1) / amount
  if slow_gap(P, H, record) > 0 then cost = cost * trust.OVER end
  return math.min(trust.UNKNOWN, cost)
end
-- Whether the next page of a host costs too much; URLs of level 0 or less wait for no trust.
function trust.is_ahead(P, H, record)
  if trust.limits(P) == math.huge then return false end
  local level = best_level(P, record)
  if not level or level <= 0 then return false end
  return trust.cost(P, H, record) > trust.most
end
function trust.any_waits(P)
  if trust.any == nil then trust.any = redis.call('EXISTS', P .. 'wary') == 1 end
  return trust.any
end
function trust.waits(P, record)
  return trust.any_waits(P) and redis.call('ZSCORE', P .. 'wary', record.name)
end
function trust.wait(P, H, record)
  redis.call('ZADD', P .. 'wary', string.format('%.17g', trust.cost(P, H, record)), record.name)
  trust.any = true
end
