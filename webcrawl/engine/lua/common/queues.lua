-- The queues of a host: adding and taking entries, and the tails of long queues.

-- Returns the configuration of the crawl. Queues longer than `hot` are spilled, see keys.py: a hot list is closed at `full`
-- entries and refilled at `low`; between `part` and twice as many entries are moved or written at once.
local known_conf
local function conf_of(P)
  if not known_conf then
    local raw = redis.call('HMGET', P .. 'conf', 'hot', 'order')
    local hot = tonumber(raw[1]) or 0
    local quarter = hot > 0 and math.floor(hot / 4) or 250
    known_conf = {
      full = hot > 0 and 3 * quarter or math.huge, low = quarter, part = math.min(quarter, 500),
      newest_first = raw[2] == 'depth-first', shuffled = raw[2] == 'random',
    }
    -- without a seed, a script's random numbers are the same in each run
    if known_conf.shuffled then
      local t = redis.call('TIME')
      math.randomseed((t[1] % 1000) * 1000000 + t[2])
    end
  end
  return known_conf
end

-- Records that an outbox has n entries, if they are enough to be written.
local function outbox_has(P, queue, n)
  if n >= conf_of(P).part then redis.call('ZADD', P .. 'spilling', n, queue)
  else redis.call('ZREM', P .. 'spilling', queue) end
end

-- Moves the last n entries of a hot list that is too long to the head of the outbox.
local function overflow(P, host, queue, n)
  local last = redis.call('RPOP', P .. 'q:' .. queue, n)
  outbox_has(P, queue, redis.call('LPUSH', P .. 'out:' .. queue, unpack(last)))
  added_behind(P, queue, -#last)
  moved(P, host, last)
end

-- Adds entries to the lists of a host, after moving the few entries of its record there.
local function push_to_lists(P, host, entries, first, record)
  local conf, mask, by_level = conf_of(P), record.mask, {}
  if record.few then
    local queue = host .. ' ' .. best_level(mask)
    local few = few_entries(record.few)
    redis.call('RPUSH', P .. 'q:' .. queue, unpack(few))
    added_behind(P, queue, #few)
    record.few = nil
  end
  for _, entry in ipairs(entries) do
    local level = level_of(entry)
    local group = by_level[level]
    if group then group[#group + 1] = entry else by_level[level] = {entry} end
  end
  for level, group in pairs(by_level) do
    local queue = host .. ' ' .. level
    -- a thousand in one command, which Lua can unpack
    for from = 1, #group, 1000 do
      local to = math.min(from + 999, #group)
      if not first and is_closed(mask, level) then
        outbox_has(P, queue, redis.call('RPUSH', P .. 'out:' .. queue, unpack(group, from, to)))
        added_behind(P, 'out:' .. queue, to - from + 1)
      else
        local n = redis.call(first and 'LPUSH' or 'RPUSH', P .. 'q:' .. queue, unpack(group, from, to))
        if not first then added_behind(P, queue, to - from + 1) end
        if n > conf.full then
          -- the outbox follows the hot list only in a stack, or if nothing was spilled yet
          local outbox_is_next = conf.newest_first or not is_closed(mask, level)
          if outbox_is_next then overflow(P, host, queue, math.min(n - conf.full, 1000)) end
          mask = bit.bor(mask, bit.lshift(256, level))
        end
      end
    end
    mask = bit.bor(mask, bit.lshift(1, level))
  end
  record.mask = mask
end

-- Adds entries to the queues of a host; returns its record, which the caller saves.
local function put(P, host, entries, head)
  local conf, record = conf_of(P), record_of(P, host)
  local first, best = head or conf.newest_first, best_level(record.mask)
  if not add_few(record, entries, first, conf.full) then push_to_lists(P, host, entries, first, record) end
  if best and best ~= best_level(record.mask) then leave_ready(P, record, best) end
  if is_parked(P, host) then redis.call('HINCRBY', P .. 'n', 'parked', #entries) end
  return record
end

-- Queues entries of a host that may be leased; `head` puts them first.
local function push(P, host, entries, head) save_record(P, put(P, host, entries, head)) end

-- Queues entries of a host and makes it ready.
local function enqueue(P, H, host, entries, head, now)
  local record = put(P, host, entries, head)
  make_ready(P, H, host, now)
  save_record(P, record)
end

-- Appends entries from elsewhere to a hot list.
local function append(P, host, queue, entries)
  redis.call('RPUSH', P .. 'q:' .. queue, unpack(entries))
  added_behind(P, queue, #entries)
  moved(P, host, entries)
end

-- Refills a closed hot list that runs low: from the outbox if that is next, else it asks for a part from the store. Opens
-- the list if nothing is left. Returns the host's new mask.
local function feed(P, host, level, mask)
  local conf, queue = conf_of(P), host .. ' ' .. level
  local hot, out = P .. 'q:' .. queue, P .. 'out:' .. queue
  if redis.call('LLEN', hot) > conf.low then return mask end
  local stored = redis.call('EXISTS', P .. 'tail:' .. queue) == 1
  if conf.newest_first or not stored then
    local next_ones = redis.call('LPOP', out, 2 * conf.part)
    if next_ones then
      append(P, host, queue, next_ones)
      outbox_has(P, queue, redis.call('LLEN', out))
      return mask
    end
  end
  redis.call(stored and 'SADD' or 'SREM', P .. 'hungry', queue)
  return stored and mask or bit.bxor(mask, bit.lshift(256, level))
end

-- Takes up to n of a record's few entries: the first ones, or random ones.
local function take_few(P, record, n, entries)
  local few = few_entries(record.few)
  for _ = 1, math.min(n, #few) do
    entries[#entries + 1] = table.remove(few, conf_of(P).shuffled and math.random(#few) or 1)
  end
  keep_few(record, few)
end

-- Takes up to n entries from a list: the first ones, or random ones with equal probability.
local function take(P, host, key, n, entries)
  if not conf_of(P).shuffled then
    for _, entry in ipairs(redis.call('LPOP', key, n) or {}) do entries[#entries + 1] = entry end
    return
  end
  for left = redis.call('LLEN', key), math.max(1, redis.call('LLEN', key) - n + 1), -1 do
    local place = math.random(0, left - 1)
    local first = redis.call('LPOP', key)
    if place > 0 then
      entries[#entries + 1] = redis.call('LINDEX', key, place - 1)
      redis.call('LSET', key, place - 1, first)
      moved(P, host, {first})
    else
      entries[#entries + 1] = first
    end
  end
end

-- So that no level starves, a share (in thousandths) of what is taken comes from the levels below the best, in turn.
-- `owner` is a host, or "" for the ready hosts of a shard. Each one taken adds the share to `due`; at a thousand, the next
-- one comes from a lower level, the one after `last`.
local function turn_of(P, owner, share)
  local raw = redis.call('HGET', P .. 'turns', owner)
  local due, last, before = string.match(raw or '0 0 0', '^(%S+) (%S+) (%S+)')
  return {owner = owner, raw = raw, due = tonumber(due), last = tonumber(last), share = share or tonumber(before)}
end

-- Whether a lower level has its turn among the next n.
local function turn_comes(turn, n) return turn.due + n * turn.share >= 1000 end

-- Returns the level of a mask that is next, and how many of n to take from it before another level may be next.
local function next_turn(turn, mask, n)
  local best = best_level(mask)
  if turn.share == 0 then return best, n end
  if not turn_comes(turn, 1) then return best, math.min(n, math.ceil((1000 - turn.due) / turn.share) - 1) end
  for i = 1, LEVELS do
    local level = (turn.last + i) % LEVELS
    if level > best and bit.band(mask, bit.lshift(1, level)) ~= 0 then return level, 1 end
  end
  return best, n
end

-- Records that n were taken from a level, the best or a lower one.
local function took(turn, n, level, lower)
  turn.due = turn.due + n * turn.share
  if lower and n > 0 then turn.due, turn.last = turn.due - n * 1000, level end
end

local function save_turn(P, turn)
  -- at most one is due, however long the lower levels were empty
  local due = math.max(-1000, math.min(turn.due, 1000))
  local text = string.format('%d %d %d', due, turn.last, turn.share)
  if text ~= turn.raw then redis.call('HSET', P .. 'turns', turn.owner, text) end
end

-- Whether a host has URLs at several levels, which then take turns.
local function has_several(mask)
  local levels = bit.band(mask, 255)
  return bit.band(levels, levels - 1) ~= 0
end

-- Takes up to n entries from the lists of a host.
local function take_from_lists(P, host, n, share, record, entries)
  local mask, before, in_store = record.mask, record.mask, 0
  local turn = share > 0 and has_several(mask) and turn_of(P, host, share)
  while mask ~= 0 and #entries < n do
    local best, had, level, most = best_level(mask), #entries, nil, n - #entries
    if bit.band(in_store, bit.lshift(1, best)) ~= 0 then break end
    if turn then level, most = next_turn(turn, bit.band(mask, bit.bnot(in_store)), most) else level = best end
    local key = P .. 'q:' .. host .. ' ' .. level
    take(P, host, key, most, entries)
    if turn then took(turn, #entries - had, level, level > best) end
    if is_closed(mask, level) then mask = feed(P, host, level, mask) end
    if redis.call('EXISTS', key) == 0 then
      if not is_closed(mask, level) then mask = bit.bxor(mask, bit.lshift(1, level))
      elseif level == best then break
      else in_store = bit.bor(in_store, bit.lshift(1, level)) end
    end
  end
  if has_several(mask) then if turn then save_turn(P, turn) end
  elseif has_several(before) then redis.call('HDEL', P .. 'turns', host) end
  record.mask = mask
end

-- Takes up to n entries of a host, best level first, except for the `share` of lower ones. Returns fewer if the rest of the
-- best level is in the store, because lower levels get no more than their share.
local function pop(P, host, n, share)
  local record, entries = record_of(P, host), {}
  if record.few then take_few(P, record, n, entries)
  else take_from_lists(P, host, n, share, record, entries) end
  save_record(P, record)
  moved(P, host, entries)
  return entries
end

-- Returns the segment and the number of URLs of a part. A descriptor is "segment offset length URLs checksum".
local function part_of(descriptor)
  local name, urls = string.match(descriptor, '^(%S+) %d+ %d+ (%d+) ')
  return name, tonumber(urls)
end

-- Drops a part, and with its last part the segment.
local function part_is_done(P, descriptor, now)
  local name, urls = part_of(descriptor)
  redis.call('HINCRBY', P .. 'n', 'spilled', -urls)
  if redis.call('HINCRBY', P .. 'segments', name, -1) <= 0 then
    redis.call('HDEL', P .. 'segments', name)
    redis.call('ZADD', P .. 'unused', now, name)
  end
end

-- The same checksum as webcrawl.frontier.segments.checksum.
local function checksum(entries) return string.sub(redis.sha1hex(table.concat(entries)), 1, 16) end
