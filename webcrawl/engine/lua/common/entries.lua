-- Times, levels, and the journal of a checkpoint.
local LEVELS = 8         -- the lower a URL's level, the earlier it is fetched. Levels 0 to 7 are the first byte of an entry; an
                         -- entry of any other level has this as its first byte, and its level after the other fields
local DATED = 128        -- added to the first byte if the URL was given a date
local BUCKET_LOAD = 192  -- mean fingerprints in a seen bucket; the fullest stay below set-max-intset-entries

-- Returns whether the leases of this shard, or the workers of the crawl, were alive at `last`, and the last of them has
-- expired by `now` with no call in between: the clock was set forward, or the server was suspended. A script that
-- does not know its crawl cannot tell, and returns nil.
local function was_set_forward(last, now)
  local crawl = string.match(KEYS[1], '^wc:{c:.-}:') or string.match(KEYS[1], '^wc:{.-}:c:[^:]+:')
  if not crawl then return nil end
  for _, name in ipairs({'leases', 'workers'}) do
    local expiry = tonumber(redis.call('ZREVRANGE', crawl .. name, 0, 0, 'WITHSCORES')[2])
    if expiry and expiry > last then return expiry <= now end
  end
  return false
end

-- Returns the time in ms: the server's time, except that it never goes back, and does not follow a clock that is set
-- forward while workers hold leases. Otherwise, nothing would become due for a while after the clock is set back, or after
-- a failover to a server whose clock is behind; and all leases and pauses would end at once after it is set forward. So a
-- shard's `clock` stores the time, once a second, and by how much it is ahead of the server's.
local known_now, known_ahead
local QUIET_MS = 60000 -- live workers call each shard more often
local function now_ms()
  if known_now then return known_now end
  local t, key = redis.call('TIME'), string.match(KEYS[1], '^wc:{.-}:') .. 'clock'
  local last, ahead = string.match(redis.call('GET', key) or '0 0', '^(%d+) (%-?%d+)$')
  known_now = t[1] * 1000 + math.floor(t[2] / 1000) + ahead
  local behind, forward = last - known_now, false
  if behind < -QUIET_MS and last ~= '0' then forward = was_set_forward(tonumber(last), known_now) end
  if behind > 0 or forward ~= false then
    known_now, ahead = known_now + behind, ahead + behind
  elseif behind < -QUIET_MS and tonumber(ahead) < 0 then
    known_now, ahead = known_now - ahead, 0 -- nobody works here, so time may follow the clock again
  end
  if forward ~= nil and (behind > 0 or behind <= -1000) then
    redis.call('SET', key, string.format('%.0f %.0f', known_now, ahead))
  end
  known_ahead = tonumber(ahead)
  return known_now
end

-- Returns the ms by which the time of now_ms is ahead of the server's clock.
local function ms_ahead()
  now_ms()
  return known_ahead
end

-- Uses only the last decimal digits of a 64-bit fingerprint, because Lua numbers are doubles.
local function bucket_value(fingerprint)
  return math.abs(tonumber(string.sub(fingerprint, -9)))
end

-- The class of an entry's fetch, a number of webcrawl.policies.traffic. UNIT times the class is added to the first byte. A
-- table, because a script may have 200 local names.
local classes = {UNIT = 16, UPDATE_CHK = 4}
function classes.of(entry) return math.floor(string.byte(entry, 1) % DATED / classes.UNIT) end
function classes.level(first) return first % classes.UNIT end
function classes.changed(entry, class)
  return string.char(string.byte(entry, 1) + classes.UNIT * (class - classes.of(entry))) .. string.sub(entry, 2)
end
local function level_of(entry)
  local first = classes.level(string.byte(entry, 1))
  return first < LEVELS and first or cmsgpack.unpack(string.sub(entry, 5))[5]
end
-- With TRAFFIC, the levels from 0 to 7 have a queue for each class: the queue of level 3 and class 2 has the level 3.2.
function classes.queue_level(entry, split)
  local level, class = level_of(entry), split and classes.of(entry) or 0
  return class > 0 and level >= 0 and level < LEVELS and (10 * level + class) / 10 or level
end
-- Whether one of the entries has a queue of its class.
function classes.have_queues(entries, split)
  for i = 1, split and #entries or 0 do
    if classes.queue_level(entries[i], true) % 1 ~= 0 then return true end
  end
end
-- Returns the class of a queue by its level.
function classes.of_queue(level) return math.floor(10 * (level % 1) + 0.5) end
-- Returns the text of a queue's level. Lua would print only 14 digits of a number that is joined to a string.
function classes.level_text(level) return string.format(level % 1 == 0 and '%.0f' or '%.1f', level) end

-- Returns an entry without the time at which its URL was first queued, and the bytes of this time, or "" without a time.
local TIME, TIME_BYTES = 165, 6 -- the time is a MessagePack string behind the array; its first byte is TIME
local function without_time(entry)
  if string.byte(entry, -TIME_BYTES) ~= TIME then return entry, '' end
  local _, time = cmsgpack.unpack(string.sub(entry, 5))
  if not time then return entry, '' end
  return string.sub(entry, 1, -1 - TIME_BYTES), string.sub(entry, -TIME_BYTES)
end

-- Returns an entry whose wait will not be observed again.
local function unobserved(entry)
  local UNOBSERVED = 128 -- of the first byte of the number behind TIME
  local array, time = without_time(entry)
  if time == '' then return entry end
  return array .. string.char(TIME, bit.bor(string.byte(time, 2), UNOBSERVED)) .. string.sub(time, 3)
end

-- Whether a level has no bit in the masks of hosts.
local function is_other(level) return level < 0 or level >= LEVELS or level % 1 ~= 0 end

-- Returns the name of a queue.
local function queue_of(host, level)
  if is_other(level) then level = classes.level_text(level) end
  return host .. ' ' .. level
end

-- Returns the lowest level of a mask; nil for an empty mask.
local function lowest_of(mask)
  for level = 0, LEVELS - 1 do
    if bit.band(mask, bit.lshift(1, level)) ~= 0 then return level end
  end
end

-- When an entry moves between lists, a checkpoint may read the new list before the entry arrives, and the old list after it
-- has left. So entries that leave a list during a checkpoint are written to a journal.
local JOURNAL_MS = 600000 -- how long the journal is kept after a checkpoint was killed
local journaling

local function is_copied(P)
  if journaling == nil then journaling = redis.call('EXISTS', P .. 'copying') == 1 end
  return journaling
end

-- Tells a checkpoint that reads a hot list, or an outbox ("out:"), from its end how many entries were added at that end;
-- n is negative for removed entries.
local function added_behind(P, queue, n)
  if is_copied(P) and redis.call('HEXISTS', P .. 'reading', queue) == 1 then
    redis.call('HINCRBY', P .. 'reading', queue, n)
  end
end

-- Whether a checkpoint reads this queue in pieces; its outbox is not written to the store meanwhile.
local function is_read(P, queue)
  return is_copied(P) and redis.call('HEXISTS', P .. 'reading', queue) + redis.call('HEXISTS', P .. 'reading', 'out:' .. queue) > 0
end
