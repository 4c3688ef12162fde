#!lua flags=allow-oom
-- Removes the entries of a bucket of the index of duplicates that are in a sealed run, if they have not changed since.
-- KEYS
--   bucket    of payloads or of texts
-- ARGV
-- each entry
--   field
--   value
-- reply       the fields that are kept, because their values have changed
local kept = {}
for i = 1, n_entry do
  local field, value = entry_at(i)
  if redis.call('HGET', bucket, field) == value then redis.call('HDEL', bucket, field) else kept[#kept + 1] = field end
end
return kept
