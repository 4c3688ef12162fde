#!lua flags=allow-oom
-- Takes the trust that hosts give to hosts to which they link, and adds what others gave to hosts.
-- KEYS
--   P          the crawl's prefix in this shard
--   H          the prefix of host records
-- ARGV
--   #kept      part of a gift that arrives
--   #few       hosts that a host adds to those to which it gives
-- each gift
--   host
--   #seed      trust that the host has at least, because it is named
--   #hosts     to which it gives now
-- each gain
--   host
--   #gained
--   #least     trust that the host has at least, because it is of the domain of a host with so much
-- reply
--   gifts      for each: what each of its hosts gets, and the trust of the giving host, as text
--   asleep     hosts whose records are in the store, and were asked for: they gave and got nothing, and are to be sent again
local now, gifts, asleep = now_ms(), {}, {}

local function is_asleep(host)
  if not cold_hosts.wake(P, host) then return false end
  asleep[#asleep + 1] = host
  return true
end

local function surface(host)
  if not trust.any_waits(P) then return end
  local record = record_of(P, host)
  if not trust.waits(P, record) then return end
  redis.call('ZREM', P .. 'wary', record.name)
  if not has_urls(record) then return end
  if trust.is_ahead(P, H, record) then return trust.wait(P, H, record) end
  make_ready(P, H, host, now)
  save_record(P, record)
end

-- A host that gives and gains is read twice, before either changes.
for _, rows in ipairs({{n_gift, gift_at}, {n_gain, gain_at}}) do
  local n, row_at = unpack(rows)
  for from = 1, n, 1000 do
    local hosts = {}
    for i = from, math.min(from + 999, n) do hosts[#hosts + 1] = (row_at(i)) end
    trust.read_all(P, hosts)
  end
end

for i = 1, n_gift do
  local host, seed, hosts = gift_at(i)
  gifts[i] = {'0', '0'}
  if not is_asleep(host) then
    local had, left, given = trust.of(P, host)
    local more = math.max(0, seed - had)
    local part = (left + more) / (given + hosts + few)
    trust.put(host, had + more, left + more - part * hosts, given + hosts, more)
    if more > 0 then surface(host) end
    gifts[i] = {string.format('%.17g', kept * part), string.format('%.17g', had + more)}
  end
end

for i = 1, n_gain do
  local host, gained, least = gain_at(i)
  if not is_asleep(host) then
    local amount, left, given = trust.of(P, host)
    local after = math.max(amount + gained, least)
    trust.put(host, after, left + gained, given, after - amount)
    surface(host)
  end
end
trust.save(P)
return {gifts, asleep}
