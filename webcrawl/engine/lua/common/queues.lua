-- The queues of a host: how entries come in and go out, and where the rest of a long one is.

-- What was configured for the crawl. Queues longer than `hot` are spilled: see keys.py. Of a queue, `full` entries close
-- its hot list; with `low` left it is filled again; what is moved or written at once is between `part` and twice that.
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
    -- a script's random numbers are the same in every run unless they are seeded
    if known_conf.shuffled then
      local t = redis.call('TIME')
      math.randomseed((t[1] % 1000) * 1000000 + t[2])
    end
  end
  return known_conf
end

-- An outbox has now n entries: remember it when that is enough to be written.
local function outbox_has(P, queue, n)
  if n >= conf_of(P).part then redis.call('ZADD', P .. 'spilling', n, queue)
  else redis.call('ZREM', P .. 'spilling', queue) end
end

-- A hot list has become too long: its last n entries go to the head of the outbox.
local function overflow(P, host, queue, n)
  local last = redis.call('RPOP', P .. 'q:' .. queue, n)
  outbox_has(P, queue, redis.call('LPUSH', P .. 'out:' .. queue, unpack(last)))
  added_behind(P, queue, -#last)
  moved(P, host, last)
end

-- Add entries to the lists of a host, with what was no list until now.
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
    -- many in one command, yet fewer than Lua can unpack
    for from = 1, #group, 1000 do
      local to = math.min(from + 999, #group)
      if not first and is_closed(mask, level) then
        outbox_has(P, queue, redis.call('RPUSH', P .. 'out:' .. queue, unpack(group, from, to)))
        added_behind(P, 'out:' .. queue, to - from + 1)
      else
        local n = redis.call(first and 'LPUSH' or 'RPUSH', P .. 'q:' .. queue, unpack(group, from, to))
        if not first then added_behind(P, queue, to - from + 1) end
        if n > conf.full then
          -- what comes after the hot list is the outbox only of a stack, or when there is nothing else yet
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

-- Add entries to what is queued for a host; its record is to be saved.
local function put(P, host, entries, head)
  local conf, record = conf_of(P), record_of(P, host)
  local first, best = head or conf.newest_first, best_level(record.mask)
  if not add_few(record, entries, first, conf.full) then push_to_lists(P, host, entries, first, record) end
  if best and best ~= best_level(record.mask) then leave_ready(P, record, best) end
  if is_parked(P, host) then redis.call('HINCRBY', P .. 'n', 'parked', #entries) end
  return record
end

-- Queue entries of a host that may have a lease. `head`: they go first again.
local function push(P, host, entries, head) save_record(P, put(P, host, entries, head)) end

-- Queue entries of a host, and have it found.
local function enqueue(P, H, host, entries, head, now)
  local record = put(P, host, entries, head)
  make_ready(P, H, host, now)
  save_record(P, record)
end

-- Entries that were elsewhere go to the end of a hot list.
local function append(P, host, queue, entries)
  redis.call('RPUSH', P .. 'q:' .. queue, unpack(entries))
  added_behind(P, queue, #entries)
  moved(P, host, entries)
end

-- A closed hot list runs low: fill it from the outbox when that is next, else have it filled from the store; open it
-- when there is nothing more. Returns the host's new mask.
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

-- Take up to n of a few entries: the first, or any.
local function take_few(P, record, n, entries)
  local few = few_entries(record.few)
  for _ = 1, math.min(n, #few) do
    entries[#entries + 1] = table.remove(few, conf_of(P).shuffled and math.random(#few) or 1)
  end
  keep_few(record, few)
end

-- Take up to n entries from a list: the first, or any, each as likely as the others.
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

-- So that no level starves, a share of what is taken, in thousandths, goes to levels below the best, each in its turn.
-- `whose` is a host, or "" for the ready hosts of a shard. `due` grows by the share with each that is taken; when it
-- comes to a thousand, that one is for a lower level, the next after `last`.
local function turn_of(P, whose, share)
  local raw = redis.call('HGET', P .. 'turns', whose)
  local due, last, before = string.match(raw or '0 0 0', '^(%S+) (%S+) (%S+)')
  return {whose = whose, raw = raw, due = tonumber(due), last = tonumber(last), share = share or tonumber(before)}
end

-- Whether it comes to that with the next n.
local function turn_comes(turn, n) return turn.due + n * turn.share >= 1000 end

-- The level of a mask whose turn it is, and how many of n are to be taken from it before another may be next.
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

-- So many were taken at a level that is the best, or a lower one.
local function took(turn, n, level, lower)
  turn.due = turn.due + n * turn.share
  if lower and n > 0 then turn.due, turn.last = turn.due - n * 1000, level end
end

local function save_turn(P, turn)
  -- more than the next one is not due, however long there was nothing of a lower level
  local due = math.max(-1000, math.min(turn.due, 1000))
  local text = string.format('%d %d %d', due, turn.last, turn.share)
  if text ~= turn.raw then redis.call('HSET', P .. 'turns', turn.whose, text) end
end

-- Whether a host has URLs at more levels than one: only then they take turns.
local function has_several(mask)
  local levels = bit.band(mask, 255)
  return bit.band(levels, levels - 1) ~= 0
end

-- Take up to n entries from the lists of a host.
local function take_from_lists(P, host, n, share, record, entries)
  local mask, before, away = record.mask, record.mask, 0
  local turn = share > 0 and has_several(mask) and turn_of(P, host, share)
  while mask ~= 0 and #entries < n do
    local best, had, level, most = best_level(mask), #entries, nil, n - #entries
    if bit.band(away, bit.lshift(1, best)) ~= 0 then break end
    if turn then level, most = next_turn(turn, bit.band(mask, bit.bnot(away)), most) else level = best end
    local key = P .. 'q:' .. host .. ' ' .. level
    take(P, host, key, most, entries)
    if turn then took(turn, #entries - had, level, level > best) end
    if is_closed(mask, level) then mask = feed(P, host, level, mask) end
    if redis.call('EXISTS', key) == 0 then
      if not is_closed(mask, level) then mask = bit.bxor(mask, bit.lshift(1, level))
      elseif level == best then break
      else away = bit.bor(away, bit.lshift(1, level)) end
    end
  end
  if has_several(mask) then if turn then save_turn(P, turn) end
  elseif has_several(before) then redis.call('HDEL', P .. 'turns', host) end
  record.mask = mask
end

-- Take up to n entries of a host, best level first, but for the `share` of lower ones. Fewer when the rest of the best
-- level has to come from the store: lower levels do not overtake it, they get no more than their share.
local function pop(P, host, n, share)
  local record, entries = record_of(P, host), {}
  if record.few then take_few(P, record, n, entries)
  else take_from_lists(P, host, n, share, record, entries) end
  save_record(P, record)
  moved(P, host, entries)
  return entries
end

-- Where a part of a queue lies: name of its segment, offset, length, URLs, checksum.
local function part_of(descriptor)
  local name, urls = string.match(descriptor, '^(%S+) %d+ %d+ (%d+) ')
  return name, tonumber(urls)
end

-- A part is needed no more; with the last part of a segment, the segment.
local function part_is_done(P, descriptor, now)
  local name, urls = part_of(descriptor)
  redis.call('HINCRBY', P .. 'n', 'spilled', -urls)
  if redis.call('HINCRBY', P .. 'segments', name, -1) <= 0 then
    redis.call('HDEL', P .. 'segments', name)
    redis.call('ZADD', P .. 'unused', now, name)
  end
end

-- The same checksum as webcrawl.frontier.segments.checksum
local function checksum(entries) return string.sub(redis.sha1hex(table.concat(entries)), 1, 16) end
