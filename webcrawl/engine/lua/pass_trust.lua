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
-- reply each   for each gift
--   each       what each of its hosts gets, as text
--   amount     the trust of the giving host, as text
local now, replies = now_ms(), {}

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
  local had, left, given = trust.of(P, host)
  local more = math.max(0, seed - had)
  local part = (left + more) / (given + hosts + few)
  trust.put(host, had + more, left + more - part * hosts, given + hosts, more)
  if more > 0 then surface(host) end
  local each, amount = string.format('%.17g', kept * part), string.format('%.17g', had + more)
  replies[i] = {each, amount}
end

for i = 1, n_gain do
  local host, gained, least = gain_at(i)
  local amount, left, given = trust.of(P, host)
  local after = math.max(amount + gained, least)
  trust.put(host, after, left + gained, given, after - amount)
  surface(host)
end
trust.save(P)
return replies
