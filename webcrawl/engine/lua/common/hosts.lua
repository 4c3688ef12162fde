-- Hosts: the times when they may be leased, their limits, and their shares among crawls.

local function level_length(P, host, level)
  local queue = queue_of(host, level)
  return redis.call('LLEN', P .. 'q:' .. queue) + redis.call('LLEN', P .. 'out:' .. queue)
    + (redis.call('HGET', P .. 'tails', queue) or 0)
end

local function queue_length(P, host)
  local record = record_of(P, host)
  if record.few then return #few_entries(record.few) end
  local length = record.others
  for level = 0, LEVELS - 1 do length = length + level_length(P, host, level) end
  return length
end

local function park(P, host, reason)
  local record = record_of(P, host)
  if has_urls(record) and not is_parked(P, host) then
    leave_ready(P, record, standing(P, record))
    redis.call('HINCRBY', P .. 'n', 'parked', queue_length(P, host))
  end
  redis.call('HSET', P .. 'parked', host, reason)
  record.parked = true
end

local function unpark(P, H, host, now)
  if redis.call('HDEL', P .. 'parked', host) == 0 then return end
  record_of(P, host).parked = false
  redis.call('HINCRBY', P .. 'n', 'parked', -queue_length(P, host))
  make_ready(P, H, host, now)
end

local RULED = '^%S+ %S+ %S+ (%S+)'

-- Returns the limits of a host ("pages bytes depth ruled"); false without any. Few crawls have a host with limits.
local limits_exist
local function limits_of(P, host)
  if limits_exist == nil then limits_exist = redis.call('EXISTS', P .. 'limits') == 1 end
  return limits_exist and redis.call('HGET', P .. 'limits', host)
end

-- Returns the limit of pages that a rule in the settings gives a host; -1 without a rule.
local function ruled_pages(P, host)
  local own = limits_of(P, host)
  return own and tonumber(string.match(own, RULED)) or -1
end

-- Returns a limit of a host: its own, the limit of a rule, or the default; nil without a limit.
local function limit_of(P, host, which, default, ruled)
  local own = limits_of(P, host)
  local limit = own and string.match(own, which)
  if own and ruled and limit == '-' then limit = string.match(own, ruled) end
  if not limit or limit == '-' then limit = string.match(default, which) end
  return tonumber(limit)
end

local function token_key(H) return (string.gsub(H, '%a+:$', 'token')) end

-- Returns how many of the `wanted` URLs the host's budget allows. URLs of its `lease` count, if that key is given.
local LEASE_FIELDS = 3 -- fields of a lease besides its URLs: token, worker, next
local function allowance(P, host, wanted, default, lease)
  local pages, bytes = limit_of(P, host, '^(%S+)', default, RULED), limit_of(P, host, '^%S+ (%S+)', default)
  if not pages and not bytes then return wanted end
  local had_pages, had_bytes = spent_by(P, record_of(P, host))
  if bytes and had_bytes >= bytes then return 0 end
  local out = pages and lease and redis.call('HLEN', lease) - LEASE_FIELDS or 0
  return pages and math.max(0, math.min(wanted, pages - had_pages - out)) or wanted
end

local function spend(P, host, pages, bytes)
  if pages == 0 and bytes == 0 then return end
  local record = record_of(P, host)
  local had_pages, had_bytes = spent_by(P, record)
  record.spent = string.format('%.0f %.0f', had_pages + pages, had_bytes + bytes)
  redis.call('HSET', P .. 'spent', host, record.spent)
end

-- Returns a fencing token, larger than any before, even if the server has lost its last writes. It is text, because a Lua
-- number of this size would lose digits when printed. Call save_token last.
local last_token
local function next_token(H)
  if last_token then
    last_token = last_token + 1
  else
    local t = redis.call('TIME')
    last_token = math.max((tonumber(redis.call('GET', token_key(H))) or 0) + 1, now_ms() * 1000 + t[2] % 1000)
  end
  return string.format('%.0f', last_token)
end

local function save_token(H)
  if last_token then redis.call('SET', token_key(H), string.format('%.0f', last_token)) end
end

-- Returns the name of a turn's holder, which tells crawls apart: another crawl may lease the host after this lease expires.
local function holder(P, H, host, token) return P .. token .. (by_name(H) and ' ' .. host or '') end

local function is_holder(P, H, host, token)
  return redis.call('HGET', turn_key(H, host), 'holder') == holder(P, H, host, token)
end

-- Returns whether this holder is another host of this crawl with the same name, whose lease was neither returned nor reaped.
local function is_sibling(P, holds_it, host)
  if not holds_it or string.sub(holds_it, 1, #P) ~= P then return false end
  local other = string.match(holds_it, ' (.+)$', #P + 1)
  return other ~= nil and other ~= host and redis.call('ZSCORE', P .. 'leases', other) ~= false
end

-- Returns the hosts that wait for a host of the same name, from the hash `behind`: name -> {host...}. They become ready when
-- its lease expires, or earlier.
local function names_behind(P, H, host)
  local known = redis.call('HGET', P .. 'behind', string.sub(turn_key(H, host), #H + 1))
  return known and cmsgpack.unpack(known) or {}
end

local function wait_behind(P, H, host)
  local known = names_behind(P, H, host)
  for _, other in ipairs(known) do
    if other == host then return end
  end
  known[#known + 1] = host
  redis.call('HSET', P .. 'behind', string.sub(turn_key(H, host), #H + 1), cmsgpack.pack(known))
end

-- Makes the hosts that waited for a host of their name ready when the name may be asked, before that host itself.
local function wake_behind(P, H, host, now)
  if not by_name(H) then return end
  local known = names_behind(P, H, host)
  if #known == 0 then return end
  local due = math.max(now, tonumber(redis.call('HGET', turn_key(H, host), 'until')) or 0) - 0.5
  for _, other in ipairs(known) do
    local record = record_of(P, other)
    local level = standing(P, record)
    if level then redis.call('ZADD', P .. 'ready:' .. level, 'XX', due, record.name) end
  end
  redis.call('HDEL', P .. 'behind', string.sub(turn_key(H, host), #H + 1))
end

local function holds(P, H, host, token)
  return redis.call('HGET', P .. 'lease:' .. host, 'token') == token and is_holder(P, H, host, token)
end

local function hold(P, H, host, token, expiry)
  redis.call('ZADD', P .. 'leases', expiry, host)
  redis.call('HSET', turn_key(H, host), 'held', expiry, 'holder', holder(P, H, host, token))
  redis.call('PERSIST', turn_key(H, host))
end

-- Returns the fields of a politeness record that lease_of takes.
local function fields_of_lease(H, host)
  return own_field(H, host, 'failures'), own_field(H, host, 'forgiven'), 'delay', 'answered', 'gap'
end

-- Returns a lease as in the replies of lease.lua and regain.lua; see their headers. Call add_records last.
local function lease_of(P, H, host, token, urls, now, worths, failures, forgiven, delay, answered, gap)
  failures = now < (tonumber(forgiven) or 0) and tonumber(failures) or 0
  local delay_ms, answered, gap_ms = tonumber(delay) or -1, answered and 1 or 0, tonumber(gap) or 0
  local over, ruled_pages, patterns, dust, dust_off = over_report(P, record_of(P, host)), ruled_pages(P, host), '', false, false
  worths = worths or {}
  return {host, token, failures, delay_ms, urls, answered, worths, ruled_pages, patterns, gap_ms, dust, dust_off, over}
end

-- Adds to leases what workers have learned of the hosts.
local function add_records(P, leases)
  for from = 1, #leases, 1000 do
    local hosts = {}
    for i = from, math.min(from + 999, #leases) do hosts[#hosts + 1] = leases[i][1] end
    for column, name in pairs({[9] = 'patterns', [11] = 'dust', [12] = 'dust_off'}) do
      for i, known in ipairs(redis.call('HMGET', P .. name, unpack(hosts))) do
        if known then leases[from + i - 1][column] = known end
      end
    end
  end
end

-- Returns the number of a caller's last lease call and the leases that it gave: host, token, host, token... They are kept
-- because the reply may be lost, or the call may arrive late.
local GIVEN_MS = 3600000 -- for which they are kept after the leases expire
local function last_given(P, caller)
  local known = redis.call('GET', P .. 'given:' .. caller)
  if not known then return 0, {} end
  local number, given = unpack(cmsgpack.unpack(known))
  return tonumber(number), given
end

local function remember_given(P, caller, number, given, lease_ms)
  redis.call('SET', P .. 'given:' .. caller, cmsgpack.pack({number, given}), 'PX', lease_ms + GIVEN_MS)
end

-- Crawls that want the same host share it by weight (stride scheduling, Waldspurger and Weihl 1995). `shares` of the
-- host's record: crawl -> {its URLs divided by its weight, when it last wanted more}. Absent until a crawl waits. A crawl of
-- weight 0 comes before all others; its share is -1, and does not grow.
-- A table, because a script may have 200 local names.
local sharing = {WAITING = 3000, LONG_AGO = 60000}
-- Returns this crawl's share. A crawl that joins or returns starts level with the others, without arrears.
function sharing.of(P, shares, now)
  local ours, least = shares[P], nil
  if sharing.is_first or ours and ours[1] < 0 then return -1 end
  if ours and now - ours[2] <= sharing.LONG_AGO then return ours[1] end
  for crawl, share in pairs(shares) do
    if crawl ~= P and share[1] >= 0 and now - share[2] < sharing.LONG_AGO then least = math.min(least or share[1], share[1]) end
  end
  return math.max(ours and ours[1] or 0, least or 0)
end
-- Returns whether a crawl with a smaller share waits for the host, and whether any other crawl waits.
function sharing.who_waits(P, shares, now)
  local ours, before_us, any = sharing.of(P, shares, now), false, false
  for crawl, share in pairs(shares) do
    if crawl ~= P and now - share[2] < sharing.WAITING then
      any = true
      before_us = before_us or share[1] < ours
    end
  end
  return before_us, any
end
function sharing.ask(P, H, host, shares, now)
  shares[P] = {sharing.of(P, shares, now), now}
  redis.call('HSET', turn_key(H, host), 'shares', cmsgpack.pack(shares))
  if sharing.is_first then redis.call('PUBLISH', 'wc:wanted', string.sub(turn_key(H, host), #H + 1)) end
end
-- Keeps the turn of a host at a time for a crawl that comes before all others.
function sharing.wait(P, H, host, shares, time)
  shares[P] = {-1, time}
  redis.call('HSET', turn_key(H, host), 'shares', cmsgpack.pack(shares))
end
-- Tells a crawl that comes before all others, and waits for a host, that the host is free.
function sharing.tell(shares, now)
  for _, share in pairs(shares) do
    if share[1] < 0 and now - share[2] < sharing.WAITING then return redis.call('PUBLISH', 'wc:asked', 1) end
  end
end
-- Adds to this crawl's share. The crawl still wants the host if it has URLs of the host left.
function sharing.take(P, H, host, shares, much, now)
  local left = has_urls(record_of(P, host))
  local ours = sharing.of(P, shares, now)
  shares[P] = {ours < 0 and ours or ours + much, left and now or 0}
  redis.call('HSET', turn_key(H, host), 'shares', cmsgpack.pack(shares))
end

-- Lets a host's record expire, unless an operator has set something in it.
local function forget_at(H, host, time)
  -- not PEXPIREAT, because `time` is not by the server's clock
  local key = turn_key(H, host)
  if redis.call('HEXISTS', key, 'kept') == 0 then redis.call('PEXPIRE', key, time - now_ms()) end
end

-- Ends the hold on a host, which is then not leased for `pause` ms. `asked`: a Retry-After asked for the pause; `failed`: its
-- failures in a row, nil if they are as before; `set`: further fields, name, value... The record of a name has only the failures
-- of failing hosts.
local function let_go(H, host, now, pause, quiet, asked, failed, set)
  local key, failures, forgiven = turn_key(H, host), own_field(H, host, 'failures'), own_field(H, host, 'forgiven')
  local known = redis.call('HMGET', key, 'until', 'kept', failures)
  local due = math.max(tonumber(known[1]) or 0, now + pause)
  local drop = {'held', 'holder'}
  set = set or {}
  set[#set + 1], set[#set + 2] = 'until', due
  if asked then set[#set + 1], set[#set + 2] = 'asked', 1 else drop[3] = 'asked' end
  failed = failed or known[3]
  if not by_name(H) or (tonumber(failed) or 0) > 0 then
    set[#set + 1], set[#set + 2] = forgiven, due + quiet
    if failed then set[#set + 1], set[#set + 2] = failures, failed end
  else
    drop[#drop + 1], drop[#drop + 2] = failures, forgiven
  end
  redis.call('HDEL', key, unpack(drop))
  redis.call('HSET', key, unpack(set))
  if not known[2] then redis.call('PEXPIRE', key, due + quiet - now_ms()) end
end

-- Keeps the hold on a host whose lease was taken from a live worker. The worker may send requests until it notices, so the
-- hold lasts until the lease would have expired, plus the gap after the last request.
local function keep_held(H, host, now)
  local QUIET = 3600000
  local record = redis.call('HMGET', turn_key(H, host), 'held', 'gap')
  local held = math.max(tonumber(record[1]), now) + (tonumber(record[2]) or 0)
  redis.call('HSET', turn_key(H, host), 'held', held)
  forget_at(H, host, held + QUIET)
end
