-- The seen set: exact, in small sets of integers under `prefix`, with its size in the fields bits, split and seen of `hash`.
-- If it was too large for the engine, part of it is in the store (webcrawl.frontier.cold_seen): `cold` is the number of
-- fingerprints that are only there, and nil if there never were any.
local function seen_set(prefix, hash)
  local state = redis.call('HMGET', hash, 'bits', 'split', 'seen', 'cold')
  local seen, stored = tonumber(state[3]) or 0, tonumber(state[4])
  return {prefix = prefix, hash = hash, bits = tonumber(state[1]) or 0, split = tonumber(state[2]) or 0,
    seen = seen, before = seen, cold = stored, cold_before = stored}
end

-- The cold buckets, ranges of fingerprints: the sorted set has the lower end of each, as member and as score. The filter of
-- a bucket follows the descriptor of its part, which is padded. Scores are doubles, so fingerprints that differ only behind
-- their first 53 bits are in one bucket. The filter is a blocked Bloom filter (Putze, Sanders and Singler 2007) with enhanced
-- double hashing; webcrawl.frontier.cold_bucket makes it.
local cold = {HEAD = 96, BLOCK = 128, BITS = 1024, TESTS = 6}
-- Returns the lower end of the bucket of a fingerprint, and its key; nil without cold buckets.
function cold.bucket(set, fingerprint)
  local fence = redis.call('ZREVRANGEBYSCORE', set.prefix .. 'cold', fingerprint, '-inf', 'LIMIT', 0, 1)[1]
  if fence then return fence, set.prefix .. 'cold:' .. fence end
end
-- Returns the descriptor of the part of a bucket; "" for an empty bucket.
function cold.descriptor(key) return (string.gsub(redis.call('GETRANGE', key, 0, cold.HEAD - 1), ' +$', '')) end
-- Returns the cold bucket of a fingerprint: the ends of its range, its key and the blocks of its filter. The next fingerprint
-- is probably of the same host, and so in the same bucket.
function cold.range_of(set, fingerprint)
  local score, range = tonumber(fingerprint), set.range
  if range and score >= range.from and score < range.to then return range end
  local fence, key = cold.bucket(set, fingerprint)
  if not fence then return {from = -math.huge, to = math.huge, blocks = 0} end
  local following = redis.call('ZRANGEBYSCORE', set.prefix .. 'cold', '(' .. fence, '+inf', 'LIMIT', 0, 1)[1]
  set.range = {from = tonumber(fence), to = tonumber(following) or math.huge, key = key,
    blocks = (redis.call('STRLEN', key) - cold.HEAD) / cold.BLOCK}
  return set.range
end
-- Whether a fingerprint may be in its cold bucket, by the filter. Returns the key of the bucket too.
function cold.maybe(set, fingerprint)
  local range = cold.range_of(set, fingerprint)
  local key, blocks = range.key, range.blocks
  if blocks <= 0 then return false end
  local value = bucket_value(fingerprint)
  local at, rest = cold.HEAD + cold.BLOCK * (value % blocks), math.floor(value / blocks)
  local block = redis.call('GETRANGE', key, at, at + cold.BLOCK - 1)
  local position, step = rest % cold.BITS, math.floor(rest / cold.BITS) % (cold.BITS / 2) * 2 + 1
  for i = 1, cold.TESTS do
    if bit.band(string.byte(block, bit.rshift(position, 3) + 1), bit.lshift(1, position % 8)) == 0 then return false end
    position, step = (position + step) % cold.BITS, (step + i) % cold.BITS
  end
  return true, key
end

-- Returns the key of the bucket of a fingerprint, which is the decimal text of a signed 64-bit integer.
local function seen_bucket(set, fingerprint)
  local value, whole = bucket_value(fingerprint), 2 ^ set.bits
  local bucket = value % (2 * whole)
  if bucket >= whole + set.split then bucket = value % whole end
  return set.prefix .. bucket
end

-- Adds a fingerprint; returns whether it is new. Returns nil, and adds nothing, if it may be in its cold bucket and `answer`
-- does not say whether it is: "seen", or the descriptor of the part that a worker has read and that lacks it. A fingerprint
-- that is found in the store is in the engine from then on, because it may be found again soon.
local function unseen(set, fingerprint, answer)
  local hot = seen_bucket(set, fingerprint)
  if redis.call('SADD', hot, fingerprint) == 0 then return false end
  if set.cold then
    if answer == 'seen' then
      set.cold = set.cold - 1
      return false
    end
    local maybe, key = cold.maybe(set, fingerprint)
    if maybe and not (answer and answer == cold.descriptor(key)) then
      redis.call('SREM', hot, fingerprint)
      return nil
    end
  end
  set.seen = set.seen + 1
  return true
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

-- Splits buckets that are due and stores the size. Call it last.
local function settle_seen(set)
  if set.cold ~= set.cold_before then redis.call('HSET', set.hash, 'cold', set.cold) end
  if set.seen == set.before then return end
  while set.seen - (set.cold or 0) > BUCKET_LOAD * (2 ^ set.bits + set.split) do
    split_bucket(set)
    set.split = set.split + 1
    if set.split == 2 ^ set.bits then set.bits, set.split = set.bits + 1, 0 end
  end
  redis.call('HSET', set.hash, 'bits', set.bits, 'split', set.split, 'seen', set.seen)
end
