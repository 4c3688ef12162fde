#!lua flags=no-writes
-- Returns the cold buckets of fingerprints.
-- KEYS
--   P           the crawl's prefix in this shard
-- ARGV
-- each url
--   mark
-- reply         for each fingerprint, the descriptor of the part of its bucket in the store; "" without a part
local known, descriptors = seen_set(P .. 'seen:', P .. 'n'), {}
for i = 1, n_url do
  local _, key = cold.bucket(known, (url_at(i)))
  descriptors[i] = key and cold.descriptor(key) or ''
end
return descriptors
