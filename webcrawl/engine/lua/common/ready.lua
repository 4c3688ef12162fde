-- Hosts that may be leased, by their best level. `ready:<level>` has the hosts that may be asked later, by time. The hosts
-- that may be asked now are listed in the order of their times: in `new:<level>` if they never answered, otherwise in
-- `due:<level>`. So new hosts do not delay known hosts, however many they are. A host is not removed from the middle of a
-- list, so its record has the levels in whose lists it is.
local DUE, NEW = 'due:', 'new:'

local function is_listed(record, level) return bit.band(record.listed, bit.lshift(1, level)) ~= 0 end

-- Returns the level at which a host may be leased; nil if the host is leased or parked, waits for its record in the store, or
-- has no URLs in the engine. If its next URLs are in the store, asks workers to read them.
local function level_at_hand(P, record)
  if not has_urls(record) then return end
  local is_leased = record.is_leased
  if is_leased == nil then is_leased = redis.call('ZSCORE', P .. 'leases', record.host) end
  if is_leased or is_parked(P, record.host) then return end
  if cold_hosts.is_waking(P, record.host) then return end
  local level = best_level(P, record)
  local queue = queue_of(record.host, level)
  if not is_closed(P, record, level) or redis.call('EXISTS', P .. 'q:' .. queue) == 1 then return standing(P, record) end
  redis.call('SADD', P .. 'hungry', queue)
end

local function put_at_end(P, level, record, answered)
  record.listed = bit.bor(record.listed, bit.lshift(1, level))
  save_record(P, record)
  together.put_at_end(P .. (answered and DUE or NEW) .. level, record.name)
end

-- Moves hosts that have become due to the end of their lists, at most a thousand in a call.
local all_came = {}
local function let_come(P, H, level, now)
  if all_came[level] then return end
  local key = P .. 'ready:' .. level
  local names = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, 1000)
  all_came[level] = #names < 1000
  if #names == 0 then return end
  redis.call('ZREM', key, unpack(names))
  for _, name in ipairs(names) do
    local host = host_of(name)
    put_at_end(P, level, record_of(P, host), redis.call('HEXISTS', turn_key(H, host), 'answered') == 1)
  end
end

-- Lists a host with URLs and without a lease for the time when it may be asked, unless its next URLs are in the store.
local function make_ready(P, H, host, now)
  local record = record_of(P, host)
  local listed = standing(P, record)
  if listed and is_listed(record, listed) and not is_closed(P, record, best_level(P, record)) then return end
  local level = level_at_hand(P, record)
  if not level or is_listed(record, level) then return end
  if record.stored and redis.call('ZSCORE', P .. 'ready:' .. level, record.name) then return end
  if level == LOWEST and redis.call('SISMEMBER', P .. 'sunk', record.name) == 1 or trust.waits(P, record) then return end
  local known = redis.call('HMGET', turn_key(H, host), 'until', 'answered')
  local due = tonumber(known[1]) or 0
  if due > now then
    redis.call('ZADD', P .. 'ready:' .. level, due, record.name)
  else
    let_come(P, H, level, now)
    put_at_end(P, level, record, known[2])
  end
end

-- Removes a host from a level, because its best level has changed or it may not be leased.
local function leave_ready(P, record, level)
  redis.call('ZREM', P .. 'ready:' .. level, record.name)
  if level == LOWEST then
    redis.call('SREM', P .. 'sunk', record.name)
    redis.call('SREM', P .. 'surfaced', record.name)
  end
end

local function any_due(P, H, list, level, now)
  let_come(P, H, level, now)
  return redis.call('EXISTS', P .. list .. level) == 1
end

-- Takes up to n due hosts of a level from its list DUE or NEW, the earliest first; returns their records. The caller saves
-- the records, and checks whether the hosts may still be leased.
local function take_due(P, H, list, level, n, now)
  let_come(P, H, level, now)
  local due_hosts, names = {}, redis.call('LPOP', P .. list .. level, math.min(n, 1000))
  if not names then return due_hosts end
  local stored = redis.call('HMGET', P .. 'queued', unpack(names))
  for i, name in ipairs(names) do
    local record = record_of(P, host_of(name), stored[i])
    record.listed = bit.band(record.listed, bit.bnot(bit.lshift(1, level)))
    due_hosts[i] = record
  end
  return due_hosts
end

-- Returns how many hosts have URLs from level 0 to another, and are leased or due soon. Hosts that never answered do not count,
-- nor leased hosts in the set `others`.
local function better_hosts(P, now, soon_ms, last, others)
  local better = redis.call('ZCARD', P .. 'leases') - redis.call('SCARD', P .. others)
  for level = 0, last do
    better = better + redis.call('LLEN', P .. 'due:' .. level)
      + redis.call('ZCOUNT', P .. 'ready:' .. level, '-inf', now + soon_ms)
  end
  return better
end
