-- The queues of a host: adding and taking entries, and the tails of long queues.

-- Records the length n of an outbox, if it is long enough to be written.
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

-- Adds entries of one level to its hot list or, if that is closed, to its outbox.
local function push_to_list(P, record, level, group, first)
  local conf, host, queue = conf_of(P), record.host, queue_of(record.host, level)
  -- a thousand entries in one command, as many as Lua can unpack
  for from = 1, #group, 1000 do
    local to = math.min(from + 999, #group)
    local closed = is_closed(P, record, level)
    if not first and closed then
      outbox_has(P, queue, redis.call('RPUSH', P .. 'out:' .. queue, unpack(group, from, to)))
      added_behind(P, 'out:' .. queue, to - from + 1)
    else
      local n = redis.call(first and 'LPUSH' or 'RPUSH', P .. 'q:' .. queue, unpack(group, from, to))
      if not first then added_behind(P, queue, to - from + 1) end
      if n > conf.full then
        -- the outbox comes directly after the hot list only in a stack, or if nothing was spilled yet
        if conf.newest_first or not closed then overflow(P, host, queue, math.min(n - conf.full, 1000)) end
        close_level(record, level)
      end
    end
  end
  count_entries(P, record, level, #group)
end

-- Adds entries to the lists of a host, after moving the few entries of its record there.
local function push_to_lists(P, entries, first, record)
  if record.few then
    local queue = queue_of(record.host, lowest_of(record.mask))
    local few = few_entries(record.few)
    redis.call('RPUSH', P .. 'q:' .. queue, unpack(few))
    added_behind(P, queue, #few)
    record.few = nil
  end
  local by_level = {}
  for _, entry in ipairs(entries) do
    local level = classes.queue_level(entry, conf_of(P).split)
    local group = by_level[level]
    if group then group[#group + 1] = entry else by_level[level] = {entry} end
  end
  for level, group in pairs(by_level) do push_to_list(P, record, level, group, first) end
end

-- Adds entries to the queues of a host; returns its record, which the caller saves.
local function put(P, host, entries, head)
  local conf, record = conf_of(P), record_of(P, host)
  local first, before = head or conf.newest_first, standing(P, record)
  if not has_urls(record) then cold_hosts.wake(P, host) end
  if classes.have_queues(entries, conf.split) or not add_few(record, entries, first, conf.full) then
    push_to_lists(P, entries, first, record)
  end
  if before and before ~= standing(P, record) then leave_ready(P, record, before) end
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

-- Refills a closed hot list that runs low from the outbox if that is next; otherwise, asks workers for a part from the store.
-- Opens the list if neither has entries left.
local function feed(P, record, level)
  local conf, queue = conf_of(P), queue_of(record.host, level)
  local hot, out = P .. 'q:' .. queue, P .. 'out:' .. queue
  if redis.call('LLEN', hot) > conf.low then return end
  local stored = redis.call('EXISTS', P .. 'tail:' .. queue) == 1
  if conf.newest_first or not stored then
    local next_entries = redis.call('LPOP', out, 2 * conf.part)
    if next_entries then
      append(P, record.host, queue, next_entries)
      return outbox_has(P, queue, redis.call('LLEN', out))
    end
  end
  redis.call(stored and 'SADD' or 'SREM', P .. 'hungry', queue)
  if not stored then open_level(record, level) end
end

-- Takes up to n of a record's few entries: the first entries, or random entries.
local function take_few(P, record, n, entries)
  local few = few_entries(record.few)
  for _ = 1, math.min(n, #few) do
    entries[#entries + 1] = table.remove(few, conf_of(P).shuffled and math.random(#few) or 1)
  end
  keep_few(record, few)
end

-- Takes up to n entries from a list: the first entries, or random entries with equal probability.
local function take(P, host, key, n, entries)
  if not conf_of(P).shuffled then
    for _, entry in ipairs(redis.call('LPOP', key, n) or {}) do entries[#entries + 1] = entry end
    return
  end
  for left = redis.call('LLEN', key), math.max(1, redis.call('LLEN', key) - n + 1), -1 do
    local index = math.random(0, left - 1)
    local first = redis.call('LPOP', key)
    if index > 0 then
      entries[#entries + 1] = redis.call('LINDEX', key, index - 1)
      redis.call('LSET', key, index - 1, first)
      moved(P, host, {first})
    else
      entries[#entries + 1] = first
    end
  end
end

-- Takes up to n entries of a level from the lists of a host, or this `entry` of the list; returns false if the next entries of
-- the level are in the store.
local function take_level(P, record, level, n, entries, entry)
  local key, had = P .. 'q:' .. queue_of(record.host, level), #entries
  if not entry then take(P, record.host, key, n, entries)
  elseif redis.call('LREM', key, 1, entry) == 1 then entries[had + 1] = entry end
  count_entries(P, record, level, had - #entries)
  if is_closed(P, record, level) then feed(P, record, level) end
  if redis.call('EXISTS', key) == 1 then return true end
  if is_closed(P, record, level) then return false end
  drop_level(P, record, level)
  return true
end

-- Takes up to n entries from the lists of a host; with `class`, from those of this class. Stops at level `below`, and at a
-- level whose next entries are in the store.
local function take_from_lists(P, record, n, below, entries, class)
  while #entries < n do
    local level = best_level(P, record, class)
    if not level or below and level >= below then return end
    if not take_level(P, record, level, n - #entries, entries) then return end
  end
end

-- Whether an entry is a link, not a request with a priority of its own or with more than a URL.
local function is_link(entry) return string.byte(entry, 5) <= 147 and level_of(entry) < LEVELS end

-- Takes the first link of a level, at which requests may be before it.
local function take_link(P, record, level, entries)
  local key, from = P .. 'q:' .. queue_of(record.host, level), 0
  local head = redis.call('LINDEX', key, 0)
  if head and is_link(head) then return take_level(P, record, level, 1, entries) end
  for _, entry in ipairs(head and redis.call('LRANGE', key, 1, 99) or {}) do
    if is_link(entry) then return take_level(P, record, level, 1, entries, entry) end
  end
end

-- Takes up to n entries like take_from_lists, and lets lower levels of the host have their share (in thousandths). An entry of
-- a lower level comes before one of the best, by which a worker knows it, or is the only one. Requests with a priority of
-- their own, and those with more than a URL, keep their order. With `class`, takes only from the queues of this class.
local function take_shared(P, record, n, share, entries, class)
  local turn, lower = rota.read(redis.call('HGET', P .. 'turns', record.host), share), {}
  local turns, last = math.max(0, math.min(rota.turns(turn, n), math.max(n - 1, 1))), nil
  take_from_lists(P, record, n - turns, nil, entries, class)
  last = entries[#entries]
  local first = n == turns and best_level(P, record, class)
  if first then last = redis.call('LINDEX', P .. 'q:' .. queue_of(record.host, first), 0) end
  local level = last and is_link(last) and level_of(last)
  for _ = 1, level and turns or 0 do
    local lower_level = rota.lower(turn, record.mask, level)
    turn.last = lower_level or turn.last
    if lower_level then take_link(P, record, lower_level, lower) end
  end
  turns = #lower
  take_from_lists(P, record, n - turns, nil, entries, class)
  if #entries == 0 then entries[1] = table.remove(lower) end
  local best, before = #entries, {}
  for i, entry in ipairs(lower) do
    local at = math.ceil(i * best / (#lower + 1))
    -- not after a worse level, nor after later entries of its own
    while at > 1 and level_of(entries[at - 1]) >= level_of(entry) do at = at - 1 end
    before[at] = before[at] or {}
    table.insert(before[at], entry)
  end
  for i = #lower > 0 and best or 0, 1, -1 do
    for j = before[i] and #before[i] or 0, 1, -1 do table.insert(entries, i, before[i][j]) end
  end
  turn.due = turn.due + #entries * share - 1000 * turns
  local text = rota.changed(turn)
  if text then redis.call('HSET', P .. 'turns', record.host, text) end
end

-- Appends the `taken` entries that may be handed out to `entries`, and their worths to `worths`. The other entries no longer
-- count as queued.
local function drop_overtaken(P, record, taken, entries, worths)
  local dropped = 0
  for _, entry in ipairs(taken) do
    local value = hand_out(P, record.host, entry)
    if value then entries[#entries + 1], worths[#worths + 1] = entry, value else dropped = dropped + 1 end
  end
  if dropped == 0 then return end
  redis.call('HINCRBY', P .. 'n', 'queued', -dropped)
  redis.call('HINCRBY', P .. 'n', 'overtaken', -dropped)
  if redis.call('HINCRBY', P .. 'overtaken', record.host, -dropped) <= 0 then
    redis.call('HDEL', P .. 'overtaken', record.host)
  end
  if is_parked(P, record.host) then redis.call('HINCRBY', P .. 'n', 'parked', -dropped) end
end

-- Takes up to n entries, each of the class that has the next turn, if the host has URLs of this class. With `share`, lower
-- levels of links have their share.
function rota.take_by_class(P, record, n, share, turns, entries)
  local present = rota.classes_of(P, record)
  for class in pairs(present) do
    if not rota.may_have(turns, class) then present[class] = nil end
  end
  while #entries < n and next(present) do
    local sequence, wanted, taken = {}, {}, {}
    for i = 1, n - #entries do
      local class = rota.next_class(turns, present)
      sequence[i], wanted[class], taken[class] = class, (wanted[class] or 0) + 1, taken[class] or {}
      rota.count_class(turns, class, 1)
    end
    for class, most in pairs(wanted) do
      if class == 0 and share then take_shared(P, record, most, share, taken[class], class)
      else take_from_lists(P, record, most, nil, taken[class], class) end
      if #taken[class] < most then present[class] = nil end
      rota.count_class(turns, class, #taken[class] - most)
    end
    for _, class in ipairs(sequence) do entries[#entries + 1] = table.remove(taken[class], 1) end
  end
end
-- Takes up to n entries of a host, best level first. Returns fewer if the rest of the best level is in the store, because
-- lower levels do not overtake it. With `below`, takes only entries of levels better than `below`; with `share`, lower levels
-- have their share; with TRAFFIC, classes have theirs. With importance, also returns the worth of each entry, and drops
-- entries that were queued again at a better level.
local function pop(P, host, n, below, share)
  local record, entries, worths, taken = record_of(P, host), {}, {}, nil
  local function has_several() return not record.few and bit.band(record.mask % 256, record.mask % 256 - 1) ~= 0 end
  local shared = share and share > 0 and not below and has_several()
  local turns = not below and rota.of_host(host)
  local by_class = turns and record.others > 0
  if turns and not by_class and not rota.may_have(turns, 0) then return entries, worths end
  repeat
    taken = {}
    if by_class then rota.take_by_class(P, record, n - #entries, shared and share, turns, taken)
    elseif shared then take_shared(P, record, n - #entries, share, taken)
    elseif not record.few then take_from_lists(P, record, n - #entries, below, taken)
    elseif not below or lowest_of(record.mask) < below then take_few(P, record, n - #entries, taken) end
    moved(P, host, taken)
    if not conf_of(P).credit then entries, taken = taken, {} else drop_overtaken(P, record, taken, entries, worths) end
  until #taken == 0 or #entries >= n
  if shared and not has_several() then redis.call('HDEL', P .. 'turns', host) end
  if turns and not by_class then rota.count_class(turns, 0, #entries) end
  save_record(P, record)
  return entries, worths
end

-- Returns the segment and the number of URLs of a part. A descriptor is "segment offset length URLs checksum".
local function part_of(descriptor)
  local name, urls = string.match(descriptor, '^(%S+) %d+ %d+ (%d+) ')
  return name, tonumber(urls)
end

-- Counts a part of a segment that is no longer used. A segment without parts becomes unused.
local function leave_segment(P, name, now)
  if redis.call('HINCRBY', P .. 'segments', name, -1) <= 0 then
    redis.call('HDEL', P .. 'segments', name)
    redis.call('ZADD', P .. 'unused', now, name)
  end
end

-- Replaces the part of a bucket of cold records by parts of a segment, as in merge_seen.lua; returns whether it did. The bucket
-- must be as the worker has read it, and the segment may not be about to be deleted.
local function replace_cold(P, prefix, segment, fence, upper, descriptor, n_piece, piece_at)
  local directory, key = prefix .. 'cold', prefix .. 'cold:' .. fence
  local following = redis.call('ZRANGEBYSCORE', directory, '(' .. fence, '+inf', 'LIMIT', 0, 1)[1] or ''
  if cold.descriptor(key) ~= descriptor or following ~= upper then return false end
  if segment ~= '' then
    local announced = tonumber(redis.call('ZSCORE', P .. 'unused', segment))
    local in_use = redis.call('HEXISTS', P .. 'segments', segment) == 1
    if announced and announced < 0 or not announced and not in_use then return false end
    redis.call('HINCRBY', P .. 'segments', segment, n_piece)
    redis.call('ZREM', P .. 'unused', segment)
  end
  for i = 1, n_piece do
    local from, part, filter = piece_at(i)
    redis.call('ZADD', directory, from, from)
    if part ~= '' then redis.call('SET', prefix .. 'cold:' .. from, part .. string.rep(' ', cold.HEAD - #part) .. filter) end
  end
  if descriptor ~= '' then leave_segment(P, (part_of(descriptor)), now_ms()) end
  return true
end

-- Drops a part.
local function part_is_done(P, descriptor, now)
  local name, urls = part_of(descriptor)
  redis.call('HINCRBY', P .. 'n', 'spilled', -urls)
  leave_segment(P, name, now)
end

-- Returns the same checksum as webcrawl.frontier.segments.checksum.
local function checksum(entries) return string.sub(redis.sha1hex(table.concat(entries)), 1, 16) end
