-- Times, levels, and the journal of a checkpoint: what all the others stand on.
local LEVELS = 8         -- a URL's level is the first byte of its entry, 0 the highest,
local DATED = 128        -- and so much more when the URL was given a date
local BUCKET_LOAD = 192  -- mean fingerprints a seen bucket; the fullest stay below set-max-intset-entries

-- The time in ms. It is the server's, but does not go back when the server's clock is set back, or after a failover to one
-- that is slow: nothing would become due for as long. So a shard's `clock` remembers the time, each second, and by how much
-- it is ahead of the server's since.
local CLOCK_MS = 1000
local known_now, known_ahead
local function now_ms()
  if known_now then return known_now end
  local t, key = redis.call('TIME'), string.match(KEYS[1], '^wc:{.-}:') .. 'clock'
  local last, ahead = string.match(redis.call('GET', key) or '0 0', '^(%d+) (%d+)$')
  known_now = t[1] * 1000 + math.floor(t[2] / 1000) + ahead
  local behind = last - known_now
  if behind > 0 then known_now, ahead = known_now + behind, ahead + behind end
  if behind > 0 or behind <= -CLOCK_MS then
    redis.call('SET', key, string.format('%.0f %.0f', known_now, ahead))
  end
  known_ahead = tonumber(ahead)
  return known_now
end

-- What has to be added to a date by the server's clock.
local function ms_ahead()
  now_ms()
  return known_ahead
end

-- Lua numbers are doubles: of a 64-bit fingerprint only the last decimal digits are used as a number.
local function bucket_value(fingerprint)
  return math.abs(tonumber(string.sub(fingerprint, -9)))
end

local function level_of(entry) return string.byte(entry, 1) % DATED end

local function best_level(mask)
  for level = 0, LEVELS - 1 do
    if bit.band(mask, bit.lshift(1, level)) ~= 0 then return level end
  end
end

-- Of a host's mask, the second byte tells the levels whose hot list is closed: they have, or had, more elsewhere.
local function is_closed(mask, level) return bit.band(mask, bit.lshift(256, level)) ~= 0 end

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
