#!lua flags=allow-oom
-- Leases ready hosts, each with its first URLs, to one worker.
-- KEYS
--   P              the crawl's prefix in this shard
--   H              the prefix of host records
-- ARGV
--   worker
--   #hosts         wanted hosts that have answered
--   #new           wanted hosts that never answered; -1 = the rest of `hosts`
--   #urls          URLs for each host
--   #lease_ms
--   #share         of lower levels, in thousandths
--   limits         of hosts without limits of their own: "pages bytes depth", "-" = none
--   #weight        of the crawl; 0 = before all others
--   caller
--   number         of the call, which grows with each call of this caller in this shard
--   class_turns    see common/turns.lua; "" without TRAFFIC
-- reply each
--   host, token
--   failures       in a row
--   delay_ms       that an operator has set, or -1
--   urls           index, entry, index, entry...
--   answered       1 if the host has answered
--   worths         of the URLs; empty if importance is off
--   ruled_pages    that its rule allows, or -1
--   patterns       the records of its URL patterns, or ""
--   gap_ms         of its last lease, or 0
--   dust           evidence for its DUST rules, or nil
--   dust_off       rules that are switched off, or nil
--   over           owner whose budget is spent, and the penalty; "" = nobody
local now = now_ms()
local LOOK_AGAIN, QUANTUM, MOST_PASSED_OVER = 200, 5, 1000
local SPARE = 64 -- hosts of a level among which a class is chosen, besides those that are wanted
local leases, given, passed_over, leased = {}, {}, 0, 0
sharing.is_first = weight == 0

-- a late call, whose caller no longer waits for the reply
if tonumber(number) <= last_given(P, caller) then return leases end

rota.read_classes(class_turns)
wake(P, H, 'later', now)
wake(P, H, 'scheduled', now)
surface(P, H, now)

-- the hosts whose next pages no longer cost too much
local most_cost, strays = trust.limits(P)
local wary = redis.call('EXISTS', P .. 'wary') == 1
for _, name in ipairs(wary and redis.call('ZRANGEBYSCORE', P .. 'wary', '-inf', most_cost, 'LIMIT', 0, 100) or {}) do
  local record = record_of(P, host_of(name))
  redis.call('ZREM', P .. 'wary', name)
  if has_urls(record) then make_ready(P, H, record.host, now) end
  save_record(P, record)
end

-- Leases a host; `strays`: although its pages cost too much.
local function lease(record, level, strays)
  local host = record.host
  local function put_off(due) redis.call('ZADD', P .. 'ready:' .. level, due, record.name) end
  local known = redis.call('HMGET', turn_key(H, host), 'until', 'held', 'shares', 'holder', fields_of_lease(H, host))
  local due, held = tonumber(known[1]) or 0, tonumber(known[2]) or 0
  local shares = known[3] and cmsgpack.unpack(known[3])
  -- a host with the same name has the turn; an expired lease must be reaped first, because its worker may just have asked
  if is_sibling(P, known[4], host) then
    wait_behind(P, H, host)
    return put_off(math.max(due, held, now + LOOK_AGAIN))
  end
  -- crawls share the politeness of a host: another crawl may hold it, and release it at any time
  if held > now then
    due = math.max(due, math.min(held, now + LOOK_AGAIN))
    shares = shares or {}
    sharing.ask(P, H, host, shares, now)
  end
  if due > now then
    if sharing.is_first then sharing.wait(P, H, host, shares or {}, due) end
    return put_off(due)
  end
  local allowed = allowance(P, host, urls, limits)
  if allowed == 0 then return park(P, host, 'budget') end
  if shares then
    local before_us, others = sharing.who_waits(P, shares, now)
    if before_us then
      sharing.ask(P, H, host, shares, now)
      return put_off(now + LOOK_AGAIN)
    end
    if others then allowed = math.min(allowed, QUANTUM) end
  end
  if not strays and trust.is_ahead(P, H, record) then return trust.wait(P, H, record) end
  if level == LOWEST and not has_turn(P, H, record, now) then return end
  -- a sunk host, and one ahead of its share, gets one URL for each turn
  local slow = strays or level == LOWEST and slow_gap(P, H, record) > 0
  local entries, worths = pop(P, host, slow and 1 or allowed, nil, share)
  if #entries == 0 then -- it may have only URLs of which no more are wanted
    if level_at_hand(P, record) == level then put_off(now + LOOK_AGAIN) end
    return
  end
  if shares then sharing.take(P, H, host, shares, #entries / weight, now) end
  local token = next_token(H)
  local key, flat = P .. 'lease:' .. host, {}
  for index, entry in ipairs(entries) do
    flat[#flat + 1] = index
    flat[#flat + 1] = entry
  end
  redis.call('HSET', key, 'token', token, 'worker', worker, 'next', #entries + 1, unpack(flat))
  hold(P, H, host, token, now + lease_ms)
  if strays or level == LOWEST then redis.call('SADD', P .. 'lowest', host) end
  if strays then redis.call('SADD', P .. 'strays', host) end
  leased = leased + #entries
  leases[#leases + 1] = lease_of(P, H, host, token, flat, now, worths, unpack(known, 5, 9))
  given[#given + 1] = host
  given[#given + 1] = token
end

-- Leases up to n hosts of a list; returns whether n were leased. Hosts that are passed over are not tried again.
local function lease_at(list, level, n)
  local enough = #leases + n
  while #leases < enough and passed_over < MOST_PASSED_OVER do
    local due_hosts, had = take_due(P, H, list, level, enough - #leases, now), #leases
    if #due_hosts == 0 then return false end
    trust.read(P, due_hosts)
    for _, record in ipairs(due_hosts) do
      if level_at_hand(P, record) == level then lease(record, level) end
      save_record(P, record)
    end
    passed_over = passed_over + #due_hosts - (#leases - had)
  end
  return #leases >= enough
end

local turn = share > 0 and rota.read(redis.call('GET', P .. 'turn'), share)

local function lease_from(list, wanted)
  local enough, levels = #leases + wanted, 2 ^ LEVELS - 1
  -- the levels with due hosts matter only if a lower level may have its turn
  if turn and rota.turns(turn, wanted) > 0 then
    for level = 0, LEVELS - 1 do
      if not any_due(P, H, list, level, now) then levels = bit.bxor(levels, bit.lshift(1, level)) end
    end
  end
  while levels ~= 0 and #leases < enough do
    local best, had, level, most = lowest_of(levels), #leases, nil, enough - #leases
    if turn then level, most = rota.next(turn, levels, most) else level = best end
    if not lease_at(list, level, most) then levels = bit.bxor(levels, bit.lshift(1, level)) end
    if turn then rota.took(turn, #leases - had, level, level > best) end
  end
end

-- Takes due hosts of all levels. Returns them by the turns of their sites, class and level, {mask, level -> {host...}} for
-- each class, and a list of all with their levels.
local function hosts_by_class(list, wanted)
  local by_turns, all = {}, {}
  local function add(turns, class, level, record)
    by_turns[turns] = by_turns[turns] or {}
    local of_class = by_turns[turns][class] or {mask = 0}
    of_class.mask = bit.bor(of_class.mask, bit.lshift(1, level))
    of_class[level] = of_class[level] or {}
    table.insert(of_class[level], record)
    by_turns[turns][class] = of_class
  end
  for level = 0, LEVELS - 1 do
    for _, record in ipairs(take_due(P, H, list, level, wanted + SPARE, now)) do
      save_record(P, record)
      if level_at_hand(P, record) == level then
        all[#all + 1] = {record, level}
        local turns = rota.of_host(record.host)
        for class in pairs(rota.classes_of(P, record)) do
          if rota.may_have(turns, class) then add(turns, class, level, record) end
        end
      end
    end
  end
  return by_turns, all
end

-- Takes a host of the class with the next turn from the classes of a site; returns the host, its level, and whether the class
-- has hosts of better levels. Returns nil without a host that was not tried.
local function take_next(turns, by_class, tried)
  local class = rota.next_class(turns, by_class)
  while class do
    local of_class = by_class[class]
    local best = lowest_of(of_class.mask)
    local level = turn and best and rota.next(turn, of_class.mask, 1) or best
    if level then
      local record = table.remove(of_class[level], 1)
      if #of_class[level] == 0 then of_class.mask = bit.bxor(of_class.mask, bit.lshift(1, level)) end
      if not tried[record] then return record, level, level > best end
    else
      by_class[class] = nil
    end
    class = rota.next_class(turns, by_class)
  end
end

-- Leases up to `wanted` hosts of a list, each for the class with the next turn. The other hosts go to the ends of their lists.
local function lease_by_class(list, wanted)
  if wanted <= 0 then return end
  local enough, tried, by_turns, all = #leases + wanted, {}, hosts_by_class(list, wanted)
  while #leases < enough and next(by_turns) do
    for turns, by_class in pairs(by_turns) do
      local record, level, lower = take_next(turns, by_class, tried)
      if not record then
        by_turns[turns] = nil
      else
        local had = #leases
        tried[record] = true
        lease(record, level)
        save_record(P, record)
        if turn then rota.took(turn, #leases - had, level, lower) end
      end
      if #leases >= enough then break end
    end
  end
  for _, pair in ipairs(all) do
    if not tried[pair[1]] then put_at_end(P, pair[2], pair[1], list == DUE) end
  end
end

local lease_hosts = rota.sites and lease_by_class or lease_from
lease_hosts(DUE, hosts)
lease_hosts(NEW, new < 0 and hosts - #leases or new)
-- what is left goes to hosts whose next pages cost too much, the cheapest first
local had, room = #leases, math.max(hosts, hosts + new) - #leases
if strays >= 0 then room = math.min(room, strays) end
for _, name in ipairs(room > 0 and redis.call('ZRANGE', P .. 'wary', 0, 2 * room + 20) or {}) do
  local record, most = record_of(P, host_of(name)), had + room
  local level = #leases < most and level_at_hand(P, record)
  local due = level and tonumber(redis.call('HGET', turn_key(H, record.host), 'until') or 0)
  if due and due <= now then
    redis.call('ZREM', P .. 'wary', name)
    lease(record, level, true)
    save_record(P, record)
  end
end
if #leases > had then
  redis.call('INCRBY', P .. 'strayed', #leases - had)
  if strays >= 0 then redis.call('SET', P .. 'fairness', trust.most .. ' ' .. strays - #leases + had, 'KEEPTTL') end
end
local text = turn and #leases > 0 and rota.changed(turn)
if text then redis.call('SET', P .. 'turn', text) end
save_ledger(P)
if #leases > 0 then
  redis.call('HINCRBY', P .. 'n', 'queued', -leased)
  redis.call('HINCRBY', P .. 'n', 'leased', leased)
  save_token(H)
  add_records(P, leases)
  remember_given(P, caller, number, given, lease_ms)
end
return leases
