-- Tests and adds a fingerprint in the seen set of a dupefilter (webcrawl.dupefilter).
-- KEYS[1] the hash with the size of its seen set; keys of buckets begin with this key and the generation
-- ARGV    a fingerprint
-- reply   1 if it was seen before, else 0
local generation = redis.call('HGET', KEYS[1], 'generation')
if not generation then
  -- a new generation never meets buckets that another process is just deleting
  local t = redis.call('TIME')
  generation = string.format('%.0f', t[1] * 1000000 + t[2])
  redis.call('HSET', KEYS[1], 'generation', generation)
end
local known = seen_set(KEYS[1] .. ':' .. generation .. ':', KEYS[1])
local fresh = unseen(known, ARGV[1])
settle_seen(known)
return fresh and 0 or 1
