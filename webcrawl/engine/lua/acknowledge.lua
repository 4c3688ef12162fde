#!lua flags=allow-oom
-- Settles URLs of a leased host: removes finished ones, delays failed ones, and makes dead letters of the rest.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, token, lease ms, further URLs wanted, pause ms (-1 = keep the lease), failures, quiet ms,
--         gap ms between two requests of the worker, limits of hosts without limits of their own,
--         level ("" = none; further URLs must be of a better one), 1 if the host has answered, purse for the credit of
--         its pages, records of its URL patterns and evidence for its DUST rules ("" = as they are, "-" = none), who is
--         over its budget, the name or registered domain of the host, and its penalty ("" = as it is, "-" = nobody),
--         1 if the pause is that of a Retry-After, then for each URL: index, "done" | "again" | "retry" | "dead" |
--         "sink", delay ms, reason or the level to which it sinks, pages, bytes, 1 if it has links plus 2 if its
--         answer was an error or there was none. URLs that were settled before are skipped: a report whose reply was
--         lost is repeated.
-- reply   {} if the lease was lost (nothing changes, but a blocked host that is released becomes free), else
--         {{credit that the purse got for each URL...}, {worth of each further URL...}, index, entry, index, entry...}
--         with the further URLs; the first two are empty if importance is off
local P, H, now = KEYS[1], KEYS[2], now_ms()
local host, more, pause = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5])
local below = tonumber(ARGV[10])
local LEASE_FIELDS = 3 -- fields of a lease besides its URLs: token, worker, next
local key, N = P .. 'lease:' .. host, P .. 'n'

local function free_host()
  redis.call('HSET', turn_key(H, host), own_field(H, host, 'failures'), ARGV[6])
  let_go(H, host, now, pause, ARGV[7], ARGV[16] == '1')
  wake_behind(P, H, host, now)
end

if not holds(P, H, host, ARGV[2]) then
  redis.call('HINCRBY', N, 'refused', 1)
  -- the lease was taken back, but the host is still held for it
  if pause >= 0 and is_holder(P, H, host, ARGV[2]) then free_host() end
  return {}
end

for i, name in ipairs({'patterns', 'dust'}) do
  local value = ARGV[12 + i]
  if value == '-' then redis.call('HDEL', P .. name, host)
  elseif value ~= '' then redis.call('HSET', P .. name, host, value) end
end

if ARGV[15] ~= '' then set_over_budget(P, record_of(P, host), ARGV[15]) end

local LINKS, FAILED = 1, 2
local settled, pages, bytes, errors, given = 0, 0, 0, 0, {}
for i = 17, #ARGV, 7 do
  local index, verdict = ARGV[i], ARGV[i + 1]
  local entry = redis.call('HGET', key, index)
  if conf_of(P).credit then given[(i - 10) / 7] = 0 end
  if entry then
    redis.call('HDEL', key, index)
    moved(P, host, {entry})
    settled, pages, bytes = settled + 1, pages + ARGV[i + 4], bytes + ARGV[i + 5]
    if bit.band(ARGV[i + 6], FAILED) ~= 0 then errors = errors + 1 end
    if conf_of(P).credit and (verdict == 'done' or verdict == 'again') then
      local url = host .. path_of(entry)
      if bit.band(ARGV[i + 6], LINKS) ~= 0 then given[(i - 10) / 7] = give_links(P, url, ARGV[12]) else give_lambda(P, url) end
    end
    if verdict == 'done' then
      redis.call('HINCRBY', N, 'done', 1)
    elseif verdict == 'again' then
      -- a URL that is rescheduled twice comes back once, at the later time
      redis.call('HINCRBY', N, 'done', 1)
      local member = delayed('-', host, dated(with_counters_reset(entry)))
      redis.call('HINCRBY', N, 'scheduled', redis.call('ZADD', P .. 'scheduled', now + ARGV[i + 2], member))
    elseif verdict == 'retry' then
      -- padded, so that entries due in the same millisecond keep their order
      local serial = string.format('%015.0f', redis.call('HINCRBY', N, 'serial', 1))
      local member = delayed(serial, host, counted(entry, 1, 0, 0))
      redis.call('HINCRBY', N, 'later', redis.call('ZADD', P .. 'later', now + ARGV[i + 2], member))
    elseif verdict == 'sink' then
      push(P, host, {string.char(tonumber(ARGV[i + 3])) .. string.sub(entry, 2)}, false)
      redis.call('HINCRBY', N, 'queued', 1)
    else
      bury(P, host, entry, ARGV[i + 3], now)
    end
  end
end
fill_purse(P, ARGV[12], now)
redis.call('HINCRBY', N, 'leased', -settled)
redis.call('HSET', turn_key(H, host), 'gap', ARGV[8])
if ARGV[11] == '1' then redis.call('HSET', turn_key(H, host), 'answered', 1) end
spend(P, host, pages, bytes)
if errors > 0 then redis.call('HINCRBY', P .. 'errors', host, errors) end

if pause >= 0 then
  give_back(P, host, nil)
  local shares = redis.call('HGET', turn_key(H, host), 'shares')
  if shares then take_share(P, H, host, cmsgpack.unpack(shares), 0, now) end
  free_host()
  make_ready(P, H, host, now)
  save_ledger(P)
  return {given, {}}
end

-- Whether only better URLs are wanted, and there are none.
local function none_below()
  if not below then return false end
  local best = best_level(P, record_of(P, host))
  return not best or best >= below
end

-- Whether the host has sunk to the lowest level while others have better URLs.
local function must_wait()
  local record = record_of(P, host)
  return standing(P, record) == LOWEST and slow_gap(P, H, record) > 0
end

hold(P, H, host, ARGV[2], now + ARGV[3])
local reply = {given, {}}
local record = redis.call('HMGET', turn_key(H, host), 'until', 'shares')
local blocked = (tonumber(record[1]) or 0) > now
local wanted = more > 0 and by_name(H) and #names_behind(P, H, host) > 0
if record[2] then
  local _, any = who_waits(P, cmsgpack.unpack(record[2]), now)
  wanted = wanted or any
end
if more > 0 and not (blocked or wanted or none_below() or is_parked(P, host) or must_wait()) then
  local out = redis.call('HLEN', key) - LEASE_FIELDS
  local entries, worths = pop(P, host, allowance(P, host, more, out, ARGV[9]), below)
  reply[2] = worths
  local first = redis.call('HINCRBY', key, 'next', #entries) - #entries
  for i, entry in ipairs(entries) do
    redis.call('HSET', key, first + i - 1, entry)
    reply[#reply + 1] = first + i - 1
    reply[#reply + 1] = entry
  end
  redis.call('HINCRBY', N, 'queued', -#entries)
  redis.call('HINCRBY', N, 'leased', #entries)
end
save_ledger(P)
return reply
