-- The credit of URLs, as webcrawl.policies.importance defines it. A record has two bytes, and then the credit of a URL that
-- waits or the worth of a URL that was fetched. The first byte is the sum of the level at which the URL is queued, 8 times the
-- levels by which importance has changed it, counted from WORST, LEFT if the URL may not be queued again, and FETCHED. The
-- second byte is its depth. If the URL may be queued again and its entry has a time, TIMED and this time follow the credit.
local CREDIT = {
  LEFT = 64, FETCHED = 128,
  WORST = -2, BEST = 3, STEP = 8, -- each level of importance stands for a factor of STEP
  UNIT = 4096, MEAN = 2 ^ 34, MOST_WORTH = 2 ^ 47, -- MEAN: credit of a crawl divided by UNIT
  LAMBDA_PART = 10,
  LOAD = 44, -- mean records in a bucket; nearly all stay below hash-max-listpack-entries
  PACKED = {[0] = '>BB', '>BBI1', '>BBI2', '>BBI3', '>BBI4', '>BBI5', '>BBI6'},
  MOST_BYTES = 8, -- of a record without a time; a record with a time is longer
  TIMED = '\0',
}

-- Returns the ledger of a shard: Lambda's `pool`, the URLs that wait here and in other shards, records, buckets.
local LEDGER, ledger = {'pool', 'waiting', 'others', 'records', 'bits', 'split'}, nil
local function ledger_of(P)
  if not ledger then
    local raw = redis.call('HMGET', P .. 'credit', unpack(LEDGER))
    ledger = {before = raw}
    for i, name in ipairs(LEDGER) do ledger[name] = tonumber(raw[i]) or 0 end
    if not raw[1] then ledger.pool = conf_of(P).credit or 0 end
  end
  return ledger
end

-- Writes the ledger if it has changed. Call it last.
local function save_ledger(P)
  if not ledger then return end
  local fields = {}
  for i, name in ipairs(LEDGER) do
    local text = string.format('%.0f', ledger[name])
    if text ~= ledger.before[i] then
      fields[#fields + 1] = name
      fields[#fields + 1] = text
    end
  end
  if #fields > 0 then redis.call('HSET', P .. 'credit', unpack(fields)) end
end

-- Returns the number of a URL: 32 bits, also computed by webcrawl.frontier.credit. Two URLs with the same number share
-- their credit; neither is lost.
local function number_of(url) return tonumber(string.sub(redis.sha1hex(url), 1, 8), 16) end

local function credit_bucket(P, number)
  local known = ledger_of(P)
  local whole = 2 ^ known.bits
  local bucket = number % (2 * whole)
  if bucket >= whole + known.split then bucket = number % whole end
  return P .. 'credit:' .. bucket
end

-- Returns a number as a signed integer, which takes less memory in a list pack.
local function credit_field(number) return number - 2147483648 end

local function packed(state, depth, amount)
  local size, bound = 0, 1
  while amount >= bound do size, bound = size + 1, bound * 256 end
  return struct.pack(CREDIT.PACKED[size], state, depth, amount)
end

local function unpack_page(page, stored)
  if #stored > CREDIT.MOST_BYTES then page.time, stored = string.sub(stored, -TIME_BYTES), string.sub(stored, 1, -2 - TIME_BYTES) end
  local state, depth, amount = struct.unpack(CREDIT.PACKED[#stored - 2], stored)
  page.depth, page.amount = depth, #stored > 2 and amount or 0
  page.level, page.rise = state % 8, math.floor(state / 8) % 8 + CREDIT.WORST
  page.left, page.fetched = state % CREDIT.FETCHED >= CREDIT.LEFT, state >= CREDIT.FETCHED
end

-- Returns the record of a URL: number, key, level, rise, left, fetched, depth, amount, time; `stored` is nil without a record.
local function page_of(P, number)
  local page = {number = number, key = credit_bucket(P, number), level = LEVELS - 1, rise = 0, depth = 0, amount = 0}
  local stored = redis.call('HGET', page.key, credit_field(number))
  if not stored then return page end
  page.stored = stored
  unpack_page(page, stored)
  return page
end

local function split_credit(P, known)
  local from, whole = P .. 'credit:' .. known.split, 2 ^ known.bits
  local to, pairs_of, leaving = P .. 'credit:' .. known.split + whole, {}, {}
  local fields = redis.call('HGETALL', from)
  for i = 1, #fields, 2 do
    if (fields[i] + 2147483648) % (2 * whole) ~= known.split then
      leaving[#leaving + 1] = fields[i]
      pairs_of[#pairs_of + 1], pairs_of[#pairs_of + 2] = fields[i], fields[i + 1]
    end
  end
  if #leaving > 0 then
    redis.call('HDEL', from, unpack(leaving))
    redis.call('HSET', to, unpack(pairs_of))
  end
  known.split = known.split + 1
  if known.split == whole then known.bits, known.split = known.bits + 1, 0 end
end

-- Counts a new record of a URL that waits.
local function count_page(P)
  local known = ledger_of(P)
  known.records, known.waiting = known.records + 1, known.waiting + 1
  if known.records > CREDIT.LOAD * (2 ^ known.bits + known.split) then split_credit(P, known) end
end

local function save_page(P, page)
  local state = page.level + 8 * (page.rise - CREDIT.WORST) + (page.left and CREDIT.LEFT or 0) + (page.fetched and CREDIT.FETCHED or 0)
  local stored = packed(state, page.depth, page.amount)
  if page.time and not page.left then stored = stored .. CREDIT.TIMED .. page.time end
  if stored == page.stored then return end
  redis.call('HSET', page.key, credit_field(page.number), stored)
  if not page.stored then count_page(P) end
  page.stored = stored
end

local function worth_of(P, amount)
  local known = ledger_of(P)
  return math.min(math.floor(amount * math.max(1, known.waiting + known.others) / CREDIT.MEAN), CREDIT.MOST_WORTH)
end

local function rise_of(worth)
  local steps, least = CREDIT.WORST, CREDIT.UNIT / CREDIT.STEP
  while steps < CREDIT.BEST and worth >= least do steps, least = steps + 1, least * CREDIT.STEP end
  return steps
end

-- Returns path and query of an entry, whether the entry is plain (so that it may be queued again at a better level), and
-- its depth.
local function path_of(entry)
  local fields, length = string.byte(entry, 5, 6)
  local plain = fields <= 147 and string.byte(entry, 1) < LEVELS
  local depth = length < 192 and string.byte(entry, length - 153)
  if depth and depth < 128 then return string.sub(entry, 7, length - 154), plain, depth end
  local parts = cmsgpack.unpack(string.sub(entry, 5))
  return parts[1], plain, math.min(parts[2] or 0, 255)
end

-- Stores the first record of a URL, in the form of `packed`; the credit that waits in it is taken from Lambda.
local function put_page(P, number, stored)
  local page, known = page_of(P, number), ledger_of(P)
  if page.stored then return end
  unpack_page(page, stored)
  save_page(P, page)
  if page.fetched then known.waiting = known.waiting - 1 else known.pool = known.pool - page.amount end
end

-- Records a URL that is queued. `rise`: the levels by which importance has changed its level; nil if the URL may not be
-- queued again, or was known before.
local function note_queued(P, host, entry, rise)
  local path, plain, depth = path_of(entry)
  local number = number_of(host .. path)
  local level, left = string.byte(entry, 1), 0
  -- with this level, no entry of this number is passed over
  if not plain or not rise then level, rise, left = LEVELS - 1, 0, CREDIT.LEFT end
  local stored = string.char(level + 8 * (rise - CREDIT.WORST) + left, depth)
  if left == 0 then
    local _, time = without_time(entry)
    if time ~= '' then stored = stored .. CREDIT.TIMED .. time end
  end
  if redis.call('HSETNX', credit_bucket(P, number), credit_field(number), stored) == 1 then return count_page(P) end
  local page = page_of(P, number)
  page.level, page.left = LEVELS - 1, true
  save_page(P, page)
end

-- Records a URL of a checkpoint, whose copy at a worse level may be in it too.
local function note_restored(P, host, entry)
  local path, plain, depth = path_of(entry)
  local page = page_of(P, number_of(host .. path))
  if not page.stored then page.left, page.depth = true, depth end
  if plain and string.byte(entry, 1) < page.level then page.level = string.byte(entry, 1) end
  save_page(P, page)
end

-- Whether an entry was queued again at a better level.
local function is_overtaken(P, host, entry)
  local path, plain = path_of(entry)
  return plain and string.byte(entry, 1) > page_of(P, number_of(host .. path)).level
end

-- Writes entries that leave a list to the journal of a checkpoint, except entries that were queued again at a better level.
local function moved(P, host, entries)
  if not is_copied(P) then return end
  local credited = conf_of(P).credit
  for _, entry in ipairs(entries) do
    if not (credited and is_overtaken(P, host, entry)) then
      local length = redis.call('RPUSH', P .. 'moved', host .. '\n' .. entry)
      if length == 1 then redis.call('PEXPIRE', P .. 'moved', JOURNAL_MS) end
    end
  end
end

-- Returns the worth of a URL that leaves its queue, without its part of Lambda's credit; nil if the URL was queued again at
-- a better level.
local function hand_out(P, host, entry)
  local path, plain = path_of(entry)
  local page, level = page_of(P, number_of(host .. path)), string.byte(entry, 1)
  if not page.stored and plain then page.level = level end
  if plain and level > page.level then return nil end
  page.left = true
  save_page(P, page)
  return page.fetched and page.amount or worth_of(P, page.amount)
end

-- Takes the credit of a URL, with its part of Lambda's, and marks the URL as fetched. Returns 0 if it was fetched before.
local function take_credit(P, url)
  local page, known = page_of(P, number_of(url)), ledger_of(P)
  if page.fetched or not page.stored then return 0 end
  local part = math.floor(math.max(0, known.pool) / known.waiting)
  local credit = page.amount + part
  page.amount, page.fetched, page.left = worth_of(P, page.amount), true, true
  known.pool, known.waiting = known.pool - part, known.waiting - 1
  save_page(P, page)
  return credit
end

-- Gives credit to a URL. Returns its worth if the URL is now worth a better level than its own.
local function receive_credit(P, number, amount)
  local page, known = page_of(P, number), ledger_of(P)
  if page.fetched then
    page.amount = math.min(page.amount + worth_of(P, amount), CREDIT.MOST_WORTH)
    known.pool = known.pool + amount
  elseif page.stored then
    page.amount = page.amount + amount
  else
    known.pool = known.pool + amount
    return
  end
  save_page(P, page)
  local worth = worth_of(P, page.amount)
  if not page.left and rise_of(worth) > page.rise then return worth end
end

-- A purse keeps the credit that pages gave until their worker spends it. A closed purse neither gives nor takes credit, and
-- is remembered for late calls.
local PURSE_MS = 86400000

local function purse_of(P, purse) return P .. 'purse:' .. purse end

-- Returns the number of a purse's last call of receive.lua in this shard, and whether the purse is closed.
local function last_received(P, purse)
  local got, closed = string.match(redis.call('GET', P .. 'got:' .. purse) or '0', '^(%d+)( ?)')
  return tonumber(got), closed == ' '
end

local function note_received(P, purse, text) redis.call('SET', P .. 'got:' .. purse, text, 'PX', PURSE_MS) end

-- What the pages of a call give. A table, because a script may have 200 local names.
local giver = {gained = 0}
-- Gives Lambda the credit of a URL whose page has no links.
function giver.to_lambda(P, url)
  local credit = take_credit(P, url)
  ledger.pool = ledger.pool + credit
end
-- Divides the credit of a fetched URL with links between Lambda and a purse; returns the purse's part. Call giver.fill last.
function giver.to_links(P, url, purse)
  if giver.is_open == nil then giver.is_open = redis.call('HEXISTS', purse_of(P, purse), 'closed') == 0 end
  local credit = take_credit(P, url)
  local given = giver.is_open and credit - math.floor(credit / CREDIT.LAMBDA_PART) or 0
  ledger.pool, giver.gained = ledger.pool + credit - given, giver.gained + given
  return given
end
function giver.fill(P, purse, now)
  if giver.gained == 0 then return end
  redis.call('HINCRBY', purse_of(P, purse), 'wallet', string.format('%.0f', giver.gained))
  redis.call('ZADD', P .. 'purses', now, purse)
end
