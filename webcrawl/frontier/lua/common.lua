-- Put in front of every script: the moves on a host's queue that several steps share.
local LEVELS = 8         -- a URL's level is the first byte of its entry, 0 the highest
local BUCKET_LOAD = 192  -- mean fingerprints a seen bucket; the fullest stay below set-max-intset-entries

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Lua numbers are doubles: of a 64-bit fingerprint only the last decimal digits are used as a number.
local function bucket_value(fingerprint)
  return math.abs(tonumber(string.sub(fingerprint, -9)))
end

local function level_of(entry) return string.byte(entry, 1) end

local function best_level(mask)
  for level = 0, LEVELS - 1 do
    if bit.band(mask, bit.lshift(1, level)) ~= 0 then return level end
  end
end

-- A host is parked when an operator blocked it or its budget is spent: it keeps its URLs, but no worker gets it.
local function is_parked(P, host) return redis.call('HEXISTS', P .. 'parked', host) == 1 end

-- While a checkpoint is written it may look for an entry at its new place too early, and come to its old one too late: so
-- entries that leave a place are written into a journal.
local JOURNAL_MS = 600000 -- outlives a checkpoint that was killed by as much
local journaling

local function is_copied(P)
  if journaling == nil then journaling = redis.call('EXISTS', P .. 'copying') == 1 end
  return journaling
end

local function moved(P, host, entries)
  if not is_copied(P) then return end
  for _, entry in ipairs(entries) do
    local length = redis.call('RPUSH', P .. 'moved', host .. '\n' .. entry)
    if length == 1 then redis.call('PEXPIRE', P .. 'moved', JOURNAL_MS) end
  end
end

-- So many entries were added to the end of a hot list, or with "out:" of an outbox, or were taken from there: a checkpoint
-- that is reading it counts from its end.
local function added_behind(P, queue, n)
  if is_copied(P) and redis.call('HEXISTS', P .. 'reading', queue) == 1 then
    redis.call('HINCRBY', P .. 'reading', queue, n)
  end
end

-- Whether a checkpoint is reading this queue in pieces: then nothing goes from its outbox to the store.
local function is_read(P, queue)
  return is_copied(P) and redis.call('HEXISTS', P .. 'reading', queue) + redis.call('HEXISTS', P .. 'reading', 'out:' .. queue) > 0
end

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

-- Of a host's mask, the second byte tells the levels whose hot list is closed: they have, or had, more elsewhere.
local function is_closed(mask, level) return bit.band(mask, bit.lshift(256, level)) ~= 0 end

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

-- Queue entries of a host; `mask` remembers which of its levels hold any. `head`: they go first again.
local function push(P, host, entries, head)
  local conf = conf_of(P)
  local mask = tonumber(redis.call('HGET', P .. 'mask', host)) or 0
  local before, by_level = mask, {}
  for _, entry in ipairs(entries) do
    local level = level_of(entry)
    local group = by_level[level]
    if group then group[#group + 1] = entry else by_level[level] = {entry} end
  end
  local first = head or conf.newest_first
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
  if mask ~= before then
    if before ~= 0 then redis.call('ZREM', P .. 'ready:' .. best_level(before), host) end
    redis.call('HSET', P .. 'mask', host, mask)
  end
  if is_parked(P, host) then redis.call('HINCRBY', P .. 'n', 'parked', #entries) end
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

-- Take up to n entries of a host, best level first, but for the `share` of lower ones. Fewer when the rest of the best
-- level has to come from the store: lower levels do not overtake it, they get no more than their share.
local function pop(P, host, n, share)
  local mask = tonumber(redis.call('HGET', P .. 'mask', host)) or 0
  local entries, before, away = {}, mask, 0
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
  if mask == 0 and before ~= 0 then redis.call('HDEL', P .. 'mask', host)
  elseif mask ~= before then redis.call('HSET', P .. 'mask', host, mask) end
  moved(P, host, entries)
  return entries
end

-- Put a host that has URLs and no lease into the ready heap of its best level, due when it may be asked again; but not
-- while the next of these URLs are still in the store.
local function make_ready(P, H, host, now)
  local mask = tonumber(redis.call('HGET', P .. 'mask', host)) or 0
  if mask == 0 or redis.call('ZSCORE', P .. 'leases', host) or is_parked(P, host) then return end
  local level = best_level(mask)
  local key = P .. 'ready:' .. level
  if redis.call('ZSCORE', key, host) then return end
  local queue = host .. ' ' .. level
  if is_closed(mask, level) and redis.call('EXISTS', P .. 'q:' .. queue) == 0 then
    redis.call('SADD', P .. 'hungry', queue)
    return
  end
  local due = tonumber(redis.call('HGET', H .. host, 'until')) or 0
  redis.call('ZADD', key, math.max(due, now), host)
end

local function queue_length(P, host)
  local length = 0
  for level = 0, LEVELS - 1 do
    local queue = host .. ' ' .. level
    length = length + redis.call('LLEN', P .. 'q:' .. queue) + redis.call('LLEN', P .. 'out:' .. queue)
      + (redis.call('HGET', P .. 'tails', queue) or 0)
  end
  return length
end

local function park(P, host, reason)
  local mask = tonumber(redis.call('HGET', P .. 'mask', host)) or 0
  if mask ~= 0 and not is_parked(P, host) then
    redis.call('ZREM', P .. 'ready:' .. best_level(mask), host)
    redis.call('HINCRBY', P .. 'n', 'parked', queue_length(P, host))
  end
  redis.call('HSET', P .. 'parked', host, reason)
end

local function unpark(P, H, host, now)
  if redis.call('HDEL', P .. 'parked', host) == 0 then return end
  redis.call('HINCRBY', P .. 'n', 'parked', -queue_length(P, host))
  make_ready(P, H, host, now)
end

-- One limit of a host, "pages bytes depth" in the hash `limits`: its own or the crawl's; nil when there is none.
local function limit_of(P, host, which, default)
  local own = redis.call('HGET', P .. 'limits', host)
  local limit = own and string.match(own, which)
  if not limit or limit == '-' then limit = string.match(default, which) end
  return tonumber(limit)
end

-- How many of the `wanted` URLs the host's budget allows, `out` being handed out already.
local function allowance(P, host, wanted, out, default)
  local pages, bytes = limit_of(P, host, '^(%S+)', default), limit_of(P, host, '^%S+ (%S+)', default)
  if not pages and not bytes then return wanted end
  local spent = redis.call('HGET', P .. 'spent', host) or '0 0'
  local had_pages, had_bytes = string.match(spent, '^(%d+) (%d+)')
  if bytes and tonumber(had_bytes) >= bytes then return 0 end
  return pages and math.max(0, math.min(wanted, pages - had_pages - out)) or wanted
end

local function spend(P, host, pages, bytes)
  if pages == 0 and bytes == 0 then return end
  local had_pages, had_bytes = string.match(redis.call('HGET', P .. 'spent', host) or '0 0', '^(%d+) (%d+)')
  redis.call('HSET', P .. 'spent', host, string.format('%.0f %.0f', had_pages + pages, had_bytes + bytes))
end

-- A fencing token: larger than any before, also when the server has lost its last moments. As text: a Lua number of
-- this size would lose digits when it is printed.
local function next_token(H)
  local key, t = string.gsub(H, 'host:$', 'token'), redis.call('TIME')
  local token = math.max((tonumber(redis.call('GET', key)) or 0) + 1, t[1] * 1000000 + t[2])
  local text = string.format('%.0f', token)
  redis.call('SET', key, text)
  return text
end

-- Who holds a host: another crawl may have taken it when a lease of this one ran out.
local function holder(P, token) return P .. token end

local function is_holder(P, H, host, token) return redis.call('HGET', H .. host, 'holder') == holder(P, token) end

local function holds(P, H, host, token)
  return redis.call('HGET', P .. 'lease:' .. host, 'token') == token and is_holder(P, H, host, token)
end

local function hold(P, H, host, token, expiry)
  redis.call('ZADD', P .. 'leases', expiry, host)
  redis.call('HSET', H .. host, 'held', expiry, 'holder', holder(P, token))
  redis.call('PERSIST', H .. host)
end

-- Crawls that want one host share it by weight (stride scheduling, Waldspurger and Weihl 1995). `shares` of the host's
-- record: crawl -> {URLs it had, divided by its weight; when it was last known to want more}. Absent until one waits.
local WAITING, LONG_AGO = 3000, 60000

-- Whether a crawl that had less than this one waits for the host, and whether any does.
local function who_waits(P, shares, now)
  local ours, before_us, any = (shares[P] or {0})[1], false, false
  for crawl, share in pairs(shares) do
    if crawl ~= P and now - share[2] < WAITING then
      any = true
      before_us = before_us or share[1] < ours
    end
  end
  return before_us, any
end

local function ask_for_share(P, H, host, shares, now)
  local ours = shares[P]
  if not ours or now - ours[2] > LONG_AGO then
    -- who comes late, or again, starts level with the others: it has nothing to make up for
    local least = nil
    for crawl, share in pairs(shares) do
      if crawl ~= P and now - share[2] < LONG_AGO then least = math.min(least or share[1], share[1]) end
    end
    ours = {math.max(ours and ours[1] or 0, least or 0), now}
  end
  shares[P] = {ours[1], now}
  redis.call('HSET', H .. host, 'shares', cmsgpack.pack(shares))
end

-- A crawl got so much more, or gives the host back: it goes on wanting it while it has URLs left.
local function take_share(P, H, host, shares, much, now)
  local left = redis.call('HEXISTS', P .. 'mask', host) == 1
  shares[P] = {(shares[P] or {0})[1] + much, left and now or 0}
  redis.call('HSET', H .. host, 'shares', cmsgpack.pack(shares))
end

-- A quiet host's record goes, unless an operator wrote on it.
local function forget_at(H, host, time)
  if redis.call('HEXISTS', H .. host, 'kept') == 0 then redis.call('PEXPIREAT', H .. host, time) end
end

-- End the hold on a host, which is not asked for `pause` ms.
local function let_go(H, host, now, pause, quiet)
  local due = math.max(tonumber(redis.call('HGET', H .. host, 'until')) or 0, now + pause)
  redis.call('HDEL', H .. host, 'held', 'holder')
  redis.call('HSET', H .. host, 'until', due, 'forgiven', due + quiet)
  forget_at(H, host, due + quiet)
end

-- A lease was taken from a worker that lives and may ask the host as long as it believes in it: the hold goes on until
-- the lease would have run out, and for the gap after the last request.
local function keep_held(H, host, now)
  local QUIET = 3600000
  local record = redis.call('HMGET', H .. host, 'held', 'gap')
  local held = math.max(tonumber(record[1]), now) + (tonumber(record[2]) or 0)
  redis.call('HSET', H .. host, 'held', held)
  forget_at(H, host, held + QUIET)
end

-- The seen set: exact, small sets of integers under `prefix`, its size in the fields bits, split and seen of `hash`.
local function seen_set(prefix, hash)
  local state = redis.call('HMGET', hash, 'bits', 'split', 'seen')
  local seen = tonumber(state[3]) or 0
  return {prefix = prefix, hash = hash, bits = tonumber(state[1]) or 0, split = tonumber(state[2]) or 0,
    seen = seen, before = seen}
end

-- Remember a fingerprint, given as the decimal text of a signed 64-bit integer; true when it was not known.
local function unseen(set, fingerprint)
  local value, whole = bucket_value(fingerprint), 2 ^ set.bits
  local bucket = value % (2 * whole)
  if bucket >= whole + set.split then bucket = value % whole end
  local fresh = redis.call('SADD', set.prefix .. bucket, fingerprint) == 1
  if fresh then set.seen = set.seen + 1 end
  return fresh
end

local function split_bucket(set)
  local from = set.prefix .. set.split
  local halves = {[0] = {}, [1] = {}}
  for _, fingerprint in ipairs(redis.call('SMEMBERS', from)) do
    local half = halves[bucket_value(fingerprint) % 2 ^ (set.bits + 1) == set.split and 0 or 1]
    half[#half + 1] = fingerprint
  end
  redis.call('DEL', from)
  if #halves[0] > 0 then redis.call('SADD', from, unpack(halves[0])) end
  if #halves[1] > 0 then redis.call('SADD', set.prefix .. (set.split + 2 ^ set.bits), unpack(halves[1])) end
end

-- Split as many buckets as have become due, and write down the size: the last thing to do with a seen set.
local function settle_seen(set)
  if set.seen == set.before then return end
  while set.seen > BUCKET_LOAD * (2 ^ set.bits + set.split) do
    split_bucket(set)
    set.split = set.split + 1
    if set.split == 2 ^ set.bits then set.bits, set.split = set.bits + 1, 0 end
  end
  redis.call('HSET', set.hash, 'bits', set.bits, 'split', set.split, 'seen', set.seen)
end

-- Add to an entry's counters: attempts, returns, blames.
local function counted(entry, attempts, returns, blames)
  local a, r, b = string.byte(entry, 2, 4)
  return string.sub(entry, 1, 1)
    .. string.char(math.min(a + attempts, 255), math.min(r + returns, 255), math.min(b + blames, 255))
    .. string.sub(entry, 5)
end

-- An entry whose counters start anew.
local function anew(entry) return string.sub(entry, 1, 1) .. string.char(0, 0, 0) .. string.sub(entry, 5) end

-- Make a dead letter. Several requests may share a URL, with other methods or bodies: each has its own letter.
local function bury(P, host, entry, reason, now)
  local field = host .. cmsgpack.unpack(string.sub(entry, 5))[1]
  local known = redis.call('HGET', P .. 'dead', field)
  local letters = known and cmsgpack.unpack(known) or {}
  letters[#letters + 1] = {reason, now, entry}
  redis.call('HSET', P .. 'dead', field, cmsgpack.pack(letters))
  redis.call('HINCRBY', P .. 'n', 'dead', 1)
end

-- An entry that waits for a time, in the sorted set `later` or `scheduled`. `serial` keeps equal ones apart.
local function delayed(serial, host, entry) return serial .. ' ' .. host .. '\n' .. entry end

-- Queue what is due in one of these sets again, at most a thousand at once.
local function wake(P, H, set, now)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. set, '-inf', now, 'LIMIT', 0, 1000)) do
    local cut = string.find(member, '\n', 1, true)
    local host = string.sub(member, string.find(member, ' ', 1, true) + 1, cut - 1)
    local entries = {string.sub(member, cut + 1)}
    redis.call('ZREM', P .. set, member)
    redis.call('HINCRBY', P .. 'n', set, -1)
    redis.call('HINCRBY', P .. 'n', 'queued', 1)
    moved(P, host, entries)
    push(P, host, entries, false)
    make_ready(P, H, host, now)
  end
end

-- These, the last one first, came back unfetched: they do not count as taken, and what was at the end of each lease does
-- not starve.
local function not_taken(P, host, entries)
  local turn = turn_of(P, host)
  if not turn.raw then return end
  local best = best_level(tonumber(redis.call('HGET', P .. 'mask', host)))
  for _, entry in ipairs(entries) do
    local level = level_of(entry)
    turn.due = turn.due - turn.share
    if level > best then turn.due, turn.last = turn.due + 1000, level - 1 end
  end
  save_turn(P, turn)
end

-- End a lease: what it still holds goes back to the head of the queue in its old order.
-- `amend(entry, place)` may change an entry on the way, or return nil to keep it out.
local function give_back(P, host, amend)
  local key, held = P .. 'lease:' .. host, {}
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local index = tonumber(fields[i])
    if index then held[#held + 1] = {index, fields[i + 1]} end
  end
  table.sort(held, function(a, b) return a[1] > b[1] end)
  local entries, had = {}, {}
  for i, pair in ipairs(held) do
    local entry = pair[2]
    had[i] = entry
    if amend then entry = amend(entry, #held - i + 1) end
    if entry then entries[#entries + 1] = entry end
  end
  redis.call('DEL', key)
  redis.call('ZREM', P .. 'leases', host)
  moved(P, host, had)
  if #entries > 0 then
    push(P, host, entries, true)
    not_taken(P, host, entries)
  end
  redis.call('HINCRBY', P .. 'n', 'leased', -#held)
  redis.call('HINCRBY', P .. 'n', 'queued', #entries)
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
