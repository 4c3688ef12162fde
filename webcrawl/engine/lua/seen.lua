-- The seen test of a dupefilter (webcrawl.dupefilter), which has no queues.
-- KEYS[1] the hash that tells how its seen set has grown; the buckets' keys begin with this one and the generation
-- ARGV    a fingerprint
-- reply   1 when it was seen before, else 0: it is now
local generation = redis.call('HGET', KEYS[1], 'generation')
if not generation then
  -- what another process is just clearing away must never be met again
  local t = redis.call('TIME')
  generation = string.format('%.0f', t[1] * 1000000 + t[2])
  redis.call('HSET', KEYS[1], 'generation', generation)
end
local known = seen_set(KEYS[1] .. ':' .. generation .. ':', KEYS[1])
local fresh = unseen(known, ARGV[1])
settle_seen(known)
return fresh and 0 or 1
