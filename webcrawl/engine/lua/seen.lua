-- Tests and adds a fingerprint in the seen set of a dupefilter (webcrawl.dupefilter).
-- KEYS
--   key       the hash with the size of its seen set; keys of buckets begin with this key and the generation
-- ARGV
--   mark      a fingerprint
-- reply       1 if it was seen before, else 0
local generation = redis.call('HGET', key, 'generation')
if not generation then
  -- so that a new set never shares buckets with a set that another process is deleting
  local t = redis.call('TIME')
  generation = string.format('%.0f', t[1] * 1000000 + t[2])
  redis.call('HSET', key, 'generation', generation)
end
local known = seen_set(key .. ':' .. generation .. ':', key)
local fresh = unseen(known, mark)
settle_seen(known)
return fresh and 0 or 1
