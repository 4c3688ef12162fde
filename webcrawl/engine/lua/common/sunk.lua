-- Hosts over a budget (webcrawl.policies.budgets), which have sunk to the lowest level. The owner of a budget is a name or a
-- registered domain. While other hosts have better URLs, all sunk hosts of an owner are asked like a single host, with a
-- longer gap: a due host waits in `sunk` for the next turn of its owner. A domain with several sunk hosts in a shard
-- probably has sunk hosts in each shard, so its gaps are multiplied by the number of shards.
local LOWEST = LEVELS - 1

-- Returns the owner of a host if the owner is over its budget, otherwise false.
local any_over
local function over_budget(P, record)
  if record.over == nil then
    if any_over == nil then any_over = redis.call('EXISTS', P .. 'over') == 1 end
    record.over = any_over and redis.call('HGET', P .. 'over', record.host)
  end
  return record.over
end

-- Returns the penalty of an owner over its budget, as last reported for one of its hosts in this shard.
local function penalty_of(P, owner) return tonumber(redis.call('HGET', P .. 'penalties', owner)) or 1 end

-- Stores a worker's report about a host: "owner penalty" for an owner over its budget, or "-".
local function set_over_budget(P, record, report)
  local owner, penalty = string.match(report, '^(%S+) (%d+)$')
  local before = over_budget(P, record)
  if owner then redis.call('HSET', P .. 'penalties', owner, penalty) end
  if before == (owner or false) then return end
  if before and redis.call('HINCRBY', P .. 'overs', before, -1) <= 0 then
    redis.call('HDEL', P .. 'overs', before)
    redis.call('HDEL', P .. 'penalties', before)
  end
  record.over, any_over = owner or false, nil
  if owner then
    redis.call('HSET', P .. 'over', record.host, owner)
    -- from now on, its turns are in `wide_slots`
    if redis.call('HINCRBY', P .. 'overs', owner, 1) > 1 then redis.call('ZREM', P .. 'slots', owner) end
  else
    redis.call('HDEL', P .. 'over', record.host)
  end
end

-- Returns the owner over its budget in the form of a worker's report, "owner penalty"; "" without an owner.
local function over_report(P, record)
  local owner = over_budget(P, record)
  return owner and owner .. ' ' .. penalty_of(P, owner) or ''
end

-- Whether a host sank with a domain that probably has sunk hosts in every shard.
local function sank_widely(P, record)
  local owner = over_budget(P, record)
  if not owner or owner == name_in(record.host) then return false end
  return (tonumber(redis.call('HGET', P .. 'overs', owner)) or 0) > 1
end

-- Returns the level, from 0 to 7, at which a host is leased; nil if it has no URLs. URLs of level 0 or less have a priority
-- from an operator, and wait for no budget.
local function standing(P, record)
  local level = best_level(P, record)
  if not level or level <= 0 then return level and 0 end
  return over_budget(P, record) and LOWEST or math.min(math.floor(level), LOWEST)
end

-- Returns the figures that lengthen gaps over a budget (webcrawl.policies.budgets.Slowdown): the factor, the hosts of a
-- domain that may be asked at once, the usual gap in ms, the number of shards, and the most by which a gap grows.
local known_slow
local function slowness(P)
  if not known_slow then
    known_slow = {}
    local text = redis.call('GET', P .. 'slowdown') or '0 0 0 1 1'
    for word in string.gmatch(text, '%S+') do known_slow[#known_slow + 1] = tonumber(word) end
  end
  return unpack(known_slow)
end

-- Returns the ms between two turns of a host's owner; 0 if its hosts are asked as often as others.
local function slow_gap(P, H, record)
  local owner = over_budget(P, record)
  if not owner then return 0 end
  local each, at_once, usual, shards, longest = slowness(P)
  if at_once == 0 then return 0 end
  local factor = math.min(longest, math.max(1, each * penalty_of(P, owner)))
  local widely = sank_widely(P, record)
  if not widely and factor == 1 then return 0 end
  local gap = math.max(usual, tonumber(redis.call('HGET', turn_key(H, record.host), 'gap')) or 0)
  return factor * gap * (widely and shards / at_once or 1)
end

local function slots_of(P, record) return P .. (sank_widely(P, record) and 'wide_slots' or 'slots') end

-- Whether a host at the lowest level may be leased now. If not, it waits for a turn of its owner.
local function has_turn(P, H, record, now)
  if redis.call('SREM', P .. 'surfaced', record.name) == 1 then return true end
  local owner = over_budget(P, record)
  if not owner then return true end
  local slots, gap = slots_of(P, record), slow_gap(P, H, record)
  local last = tonumber(redis.call('ZSCORE', slots, owner))
  if gap == 0 or not last or last + gap <= now and not redis.call('ZSCORE', P .. 'waiting', owner) then
    redis.call('ZADD', slots, now, owner)
    return true
  end
  redis.call('SADD', P .. 'sunk', record.name)
  redis.call('RPUSH', P .. 'waiting:' .. owner, record.name)
  redis.call('ZADD', P .. 'waiting', 'NX', last + gap, owner)
  return false
end

-- Makes hosts ready whose turns have come: a host of each of up to 100 owners, or up to 100 hosts if owners need not wait.
local function surface(P, H, now)
  local _, at_once = slowness(P)
  local last = at_once == 0 and '+inf' or now
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', P .. 'waiting', '-inf', last, 'LIMIT', 0, 100)) do
    local queue, gap = P .. 'waiting:' .. owner, 0
    for _ = 1, 100 do
      local name = redis.call('LPOP', queue)
      if name and redis.call('SREM', P .. 'sunk', name) == 1 then
        local record = record_of(P, host_of(name))
        redis.call('SADD', P .. 'surfaced', name)
        redis.call('ZADD', P .. 'ready:' .. LOWEST, now, name)
        gap = slow_gap(P, H, record)
        redis.call('ZADD', slots_of(P, record), now, owner)
      end
      if not name or gap > 0 then break end
    end
    if redis.call('EXISTS', queue) == 0 then redis.call('ZREM', P .. 'waiting', owner)
    else redis.call('ZADD', P .. 'waiting', now + gap, owner) end
  end
end

-- Adapts the times of the hundred owners that would wait longest to the present gaps, which change with the number of hosts.
local function wait_anew(P, H, now)
  for _, owner in ipairs(redis.call('ZREVRANGEBYSCORE', P .. 'waiting', '+inf', now, 'LIMIT', 0, 100)) do
    local name = redis.call('LINDEX', P .. 'waiting:' .. owner, 0)
    local record = name and record_of(P, host_of(name))
    local last = record and tonumber(redis.call('ZSCORE', slots_of(P, record), owner))
    if last then redis.call('ZADD', P .. 'waiting', last + slow_gap(P, H, record), owner) end
  end
end
