-- Which hosts may be leased, by their best level: `ready:<level>` has those that may be asked at a time to come, and
-- `due:<level>`, in the order of their times, those whose time has come. A host that has left the latter for whatever
-- reason is still in it until its turn comes: so its record tells in which of these lists it is.

local function is_listed(record, level) return bit.band(record.listed, bit.lshift(1, level)) ~= 0 end

-- The level at which a host may be leased, as far as its URLs are concerned; nil when it has none at hand, or has a lease,
-- or is parked. When the next of its URLs are still in the store, somebody is to get them.
local function level_at_hand(P, record)
  local mask = record.mask
  if mask == 0 or redis.call('ZSCORE', P .. 'leases', record.host) or is_parked(P, record.host) then return end
  local level = best_level(mask)
  local queue = record.host .. ' ' .. level
  if not is_closed(mask, level) or redis.call('EXISTS', P .. 'q:' .. queue) == 1 then return level end
  redis.call('SADD', P .. 'hungry', queue)
end

local function put_at_end(P, level, found)
  local names = {}
  for i, record in ipairs(found) do
    names[i] = record.name
    record.listed = bit.bor(record.listed, bit.lshift(1, level))
    save_record(P, record)
  end
  redis.call('RPUSH', P .. 'due:' .. level, unpack(names))
end

-- Hosts whose time has come since somebody looked go to the end of the list, a thousand at once.
local all_came = {}
local function let_come(P, level, now)
  if all_came[level] then return end
  local key, found = P .. 'ready:' .. level, {}
  local names = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, 1000)
  all_came[level] = #names < 1000
  if #names == 0 then return end
  for i, name in ipairs(names) do found[i] = record_of(P, host_of(name)) end
  redis.call('ZREM', key, unpack(names))
  put_at_end(P, level, found)
end

-- Put a host that has URLs and no lease where it is found when it may be asked again; but not while the next of these URLs
-- are still in the store.
local function make_ready(P, H, host, now)
  local record = record_of(P, host)
  local best = best_level(record.mask)
  if best and is_listed(record, best) and not is_closed(record.mask, best) then return end
  local level = level_at_hand(P, record)
  if not level or is_listed(record, level) then return end
  if record.stored and redis.call('ZSCORE', P .. 'ready:' .. level, record.name) then return end
  local due = tonumber(redis.call('HGET', H .. host, 'until')) or 0
  if due > now then
    redis.call('ZADD', P .. 'ready:' .. level, due, record.name)
  else
    let_come(P, level, now)
    put_at_end(P, level, {record})
  end
end

-- The best level of a host is another one now, or it may not be leased.
local function leave_ready(P, record, level)
  redis.call('ZREM', P .. 'ready:' .. level, record.name)
end

local function any_due(P, level, now)
  let_come(P, level, now)
  return redis.call('EXISTS', P .. 'due:' .. level) == 1
end

-- Take up to n hosts from a level, the first to be due first: their records, which are to be saved. Whether one may still
-- be leased there is to be seen.
local function take_due(P, level, n, now)
  let_come(P, level, now)
  local found = {}
  for i, name in ipairs(redis.call('LPOP', P .. 'due:' .. level, math.min(n, 1000)) or {}) do
    found[i] = record_of(P, host_of(name))
    found[i].listed = bit.band(found[i].listed, bit.bnot(bit.lshift(1, level)))
  end
  return found
end
