-- The seen set: exact, in small sets of integers under `prefix`, with its size in the fields bits, split and seen of `hash`.
local function seen_set(prefix, hash)
  local state = redis.call('HMGET', hash, 'bits', 'split', 'seen')
  local seen = tonumber(state[3]) or 0
  return {prefix = prefix, hash = hash, bits = tonumber(state[1]) or 0, split = tonumber(state[2]) or 0,
    seen = seen, before = seen}
end

-- Returns the key of the bucket of a fingerprint, which is the decimal text of a signed 64-bit integer.
local function seen_bucket(set, fingerprint)
  local value, whole = bucket_value(fingerprint), 2 ^ set.bits
  local bucket = value % (2 * whole)
  if bucket >= whole + set.split then bucket = value % whole end
  return set.prefix .. bucket
end

-- Adds a fingerprint; returns whether it is new.
local function unseen(set, fingerprint)
  local fresh = redis.call('SADD', seen_bucket(set, fingerprint), fingerprint) == 1
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

-- Splits buckets that are due and stores the size. Call it last.
local function settle_seen(set)
  if set.seen == set.before then return end
  while set.seen > BUCKET_LOAD * (2 ^ set.bits + set.split) do
    split_bucket(set)
    set.split = set.split + 1
    if set.split == 2 ^ set.bits then set.bits, set.split = set.bits + 1, 0 end
  end
  redis.call('HSET', set.hash, 'bits', set.bits, 'split', set.split, 'seen', set.seen)
end
