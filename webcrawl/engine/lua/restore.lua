-- Adds records of a checkpoint to a crawl without workers. Times are in ms by the server's clock.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   kind
-- each record
--   name      host, owner of a budget, URL, number of a URL, or member of a sorted set
--   value
--   #n        number of its `parts`
-- list parts
-- reply       1
--
-- kind                     name                  value     parts
-- "tail", "head"           host                            entries to add to the end or the head of its queue
-- "later", "scheduled"     member                time
-- "dead"                   URL                   letters
-- "dropped"                URL                   time
-- "bury"                   host                  reason    entries
-- "seen"                                                   marks
-- "credit"                 number of a URL       record
-- "limits", "spent", "parked", "patterns", "unknown", "dust", "dust_off", "over", "budgets", "trust"
--                          host or owner         value
-- "host"                   host or its name                fields and values of its record; an existing record is kept
local now, N = now_ms(), P .. 'n'
local put = {}

-- a planner must not queue these pages again
local function note_planned(host, entry, due)
  if string.byte(entry, 1) >= DATED then plan.add(P, host, entry, due) end
end

local function put_queue(host, _, entries)
  local head = kind == 'head'
  if head then
    local backwards = {}
    for i, entry in ipairs(entries) do backwards[#entries - i + 1] = entry end
    entries = backwards
  end
  if #entries > 0 then enqueue(P, H, host, entries, head, now) end
  for i = 1, conf_of(P).credit and #entries or 0 do note_restored(P, host, entries[i]) end
  for _, entry in ipairs(entries) do note_planned(host, entry, now) end
  redis.call('HINCRBY', N, 'queued', #entries)
end
put.tail, put.head = put_queue, put_queue

-- a scan may return a member twice
local function put_waiting(member, time)
  redis.call('HINCRBY', N, kind, redis.call('ZADD', P .. kind, time + ms_ahead(), member))
  local serial = math.max(tonumber(redis.call('HGET', N, 'serial')) or 0, tonumber(string.match(member, '^%d+')) or 0)
  redis.call('HSET', N, 'serial', string.format('%.0f', serial))
  local host, entry = string.match(member, '^%S+ (.-)\n(.*)$')
  note_planned(host, entry, time + ms_ahead())
end
put.later, put.scheduled = put_waiting, put_waiting

function put.dead(url, letters)
  local known = redis.call('HGET', P .. 'dead', url)
  redis.call('HSET', P .. 'dead', url, letters)
  redis.call('HINCRBY', N, 'dead', #cmsgpack.unpack(letters) - (known and #cmsgpack.unpack(known) or 0))
end

function put.dropped(url, time)
  redis.call('HINCRBY', N, 'dropped', redis.call('HSET', P .. 'dropped', url, time))
end

function put.bury(host, reason, entries)
  for _, entry in ipairs(entries) do bury(P, host, entry, reason, now) end
end

function put.seen(_, _, marks)
  local known = seen_set(P .. 'seen:', N)
  -- a mark that may be in the store already is kept here too
  for _, mark in ipairs(marks) do
    if unseen(known, mark) == nil then
      redis.call('SADD', (seen_bucket(known, mark)), mark)
      known.seen = known.seen + 1
    end
  end
  settle_seen(known)
end

-- the credit that waits in a record comes from the pool, so the sum does not change
function put.credit(number, record)
  if conf_of(P).credit then put_page(P, tonumber(number) + 2147483648, record) end
end

local function put_value(host, value) redis.call('HSET', P .. kind, host, value) end
for _, name in ipairs({'limits', 'spent', 'parked', 'patterns', 'unknown', 'dust', 'dust_off', 'budgets'}) do
  put[name] = put_value
end

function put.over(host, owner) set_over_budget(P, record_of(P, host), owner .. ' 1') end

function put.trust(host, stored)
  -- a later record of a host replaces an earlier one
  local before = redis.call('HGET', P .. 'trust', host)
  local more = struct.unpack('<d', stored) - (before and struct.unpack('<d', before) or 0)
  redis.call('HSET', P .. 'trust', host, stored)
  if more ~= 0 then redis.call('INCRBYFLOAT', P .. 'trusted', string.format('%.17g', more)) end
end

function put.host(host, _, fields)
  local key, forgotten = turn_key(H, host), nil
  if redis.call('EXISTS', key) == 1 then return end
  for i = 1, #fields, 2 do
    local time = string.match(fields[i], '^%a+')
    redis.call('HSET', key, fields[i], fields[i + 1])
    if time == 'until' or time == 'forgiven' then
      redis.call('HINCRBY', key, fields[i], ms_ahead())
      if time == 'forgiven' then forgotten = math.max(forgotten or 0, redis.call('HGET', key, fields[i])) end
    end
  end
  forget_at(H, host, forgotten or now + 3600000)
end

local last = 0
for i = 1, n_record do
  local name, value, n = record_at(i)
  put[kind](name, value, {unpack(parts, last + 1, last + n)})
  last = last + n
end
save_ledger(P)
return 1
