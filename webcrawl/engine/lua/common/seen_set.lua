-- The seen set: exact, in small sets of integers under `prefix`, with its size in the fields bits, split and seen of `hash`.
-- If it was too large for the engine, part of it is in the store (webcrawl.frontier.cold_seen): `cold` is the number of
-- fingerprints that are only there, and nil if there never were any.
local function seen_set(prefix, hash)
  local state = redis.call('HMGET', hash, 'bits', 'split', 'seen', 'cold')
  local seen, stored = tonumber(state[3]) or 0, tonumber(state[4])
  local bits = tonumber(state[1]) or 0
  return {prefix = prefix, hash = hash, bits = bits, whole = 2 ^ bits, split = tonumber(state[2]) or 0,
    seen = seen, before = seen, cold = stored, cold_before = stored}
end

-- The cold buckets, ranges of fingerprints: the sorted set has the lower end of each, as member and as score. The filter of
-- a bucket follows the descriptor of its part, which is padded. Scores are doubles, so fingerprints that differ only behind
-- their first 53 bits are in one bucket. The filter is a blocked Bloom filter (Putze, Sanders and Singler 2007) with enhanced
-- double hashing; webcrawl.frontier.cold_bucket makes it. Fingerprints of a host are within HOST.
local cold = {HEAD = 96, BLOCK = 128, BITS = 1024, TESTS = 6, HOST = 2 ^ 48, FIRST = -2 ^ 63}
-- Returns the lower end of the bucket of a fingerprint, and its key; nil without cold buckets. "(" before a fingerprint: of the
-- fingerprints that come before it.
function cold.bucket(set, fingerprint)
  local fence = redis.call('ZREVRANGEBYSCORE', set.prefix .. 'cold', fingerprint, '-inf', 'LIMIT', 0, 1)[1]
  if fence then return fence, set.prefix .. 'cold:' .. fence end
end
-- Returns the descriptor of the part of a bucket; "" for an empty bucket.
function cold.descriptor(key) return (string.gsub(redis.call('GETRANGE', key, 0, cold.HEAD - 1), ' +$', '')) end
-- Returns the last bucket if it has the range of this fingerprint: the next fingerprint is probably of the same host.
function cold.at_hand(set, score)
  local last = set.range
  return last and score >= last.from and score < last.to and last
end
-- Reads the bucket of a fingerprint: a part of its range, its key and the blocks of its filter.
function cold.range_of(set, fingerprint, score)
  local to = (math.floor(score / cold.HOST) + 1) * cold.HOST
  local fence, key = cold.bucket(set, to < -cold.FIRST and string.format('(%d', to) or '+inf')
  if fence and tonumber(fence) > score then -- the host is in several buckets
    to, fence, key = score, cold.bucket(set, fingerprint)
  end
  local blocks = key and (redis.call('STRLEN', key) - cold.HEAD) / cold.BLOCK or 0
  set.range = {from = tonumber(fence) or cold.FIRST, to = to, key = key, blocks = blocks, is_read = false, filter = false,
    part = false}
  return set.range
end
-- Returns a text with a block of the filter, and the bytes before it. A second fingerprint of a bucket reads the whole filter.
function cold.block(range, number)
  local at = cold.BLOCK * number
  if not range.is_read then
    range.is_read = true
    return redis.call('GETRANGE', range.key, cold.HEAD + at, cold.HEAD + at + cold.BLOCK - 1), 0
  end
  range.filter = range.filter or redis.call('GETRANGE', range.key, cold.HEAD, -1)
  return range.filter, at
end
-- Whether a fingerprint with this `bucket_value` may be in a bucket, by the filter.
function cold.maybe(range, value)
  local blocks = range.blocks
  if blocks <= 0 then return false end
  local rest, text, at = math.floor(value / blocks), cold.block(range, value % blocks)
  local position, step = rest % cold.BITS, math.floor(rest / cold.BITS) % (cold.BITS / 2) * 2 + 1
  for i = 1, cold.TESTS do
    if bit.band(string.byte(text, at + bit.rshift(position, 3) + 1), bit.lshift(1, position % 8)) == 0 then return false end
    position, step = (position + step) % cold.BITS, (step + i) % cold.BITS
  end
  return true
end
-- Returns the descriptor of the part that may have a fingerprint; nil if `answer`, which is the descriptor of a part that lacks
-- it, or the filter tell that none has it.
function cold.part(range, value, answer)
  if not cold.maybe(range, value) then return nil end
  range.part = range.part or cold.descriptor(range.key)
  return range.part ~= answer and range.part or nil
end

-- Returns the key of the bucket of a fingerprint, which is the decimal text of a signed 64-bit integer, and its `bucket_value`.
local function seen_bucket(set, fingerprint)
  local value, whole = bucket_value(fingerprint), set.whole
  local bucket = value % (2 * whole)
  if bucket >= whole + set.split then bucket = value % whole end
  return set.prefix .. bucket, value
end

-- Adds a fingerprint; returns whether it is new. Returns nil and the descriptor of a part, and adds nothing, if it may be in
-- that part and `answer` does not say whether it is: "seen", or the descriptor of the part that a worker has read and that lacks
-- it. A fingerprint that is found in the store is in the engine from then on, because it may be found again soon.
local function unseen(set, fingerprint, answer)
  local hot, value = seen_bucket(set, fingerprint)
  local score = set.cold and answer ~= 'seen' and tonumber(fingerprint)
  local range = score and cold.at_hand(set, score)
  local part = range and cold.part(range, value, answer)
  if part then
    if redis.call('SISMEMBER', hot, fingerprint) == 1 then return false end
    return nil, part
  end
  if redis.call('SADD', hot, fingerprint) == 0 then return false end
  if answer == 'seen' then
    set.cold = set.cold - 1
    return false
  end
  -- not before, because most known fingerprints are in the engine
  part = score and not range and cold.part(cold.range_of(set, fingerprint, score), value, answer)
  if part then
    redis.call('SREM', hot, fingerprint)
    return nil, part
  end
  set.seen = set.seen + 1
  return true
end

local function split_bucket(set)
  local from = set.prefix .. set.split
  local halves = {[0] = {}, [1] = {}}
  for _, fingerprint in ipairs(redis.call('SMEMBERS', from)) do
    local half = halves[bucket_value(fingerprint) % (2 * set.whole) == set.split and 0 or 1]
    half[#half + 1] = fingerprint
  end
  redis.call('DEL', from)
  if #halves[0] > 0 then redis.call('SADD', from, unpack(halves[0])) end
  if #halves[1] > 0 then redis.call('SADD', set.prefix .. (set.split + set.whole), unpack(halves[1])) end
end

-- Splits buckets that are due and stores the size. Call it last.
local function settle_seen(set)
  if set.cold ~= set.cold_before then redis.call('HSET', set.hash, 'cold', set.cold) end
  if set.seen == set.before then return end
  while set.seen - (set.cold or 0) > BUCKET_LOAD * (set.whole + set.split) do
    split_bucket(set)
    set.split = set.split + 1
    if set.split == set.whole then set.bits, set.whole, set.split = set.bits + 1, 2 * set.whole, 0 end
  end
  redis.call('HSET', set.hash, 'bits', set.bits, 'split', set.split, 'seen', set.seen)
end
