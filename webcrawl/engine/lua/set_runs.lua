#!lua flags=allow-oom
-- Replaces the list of the sealed runs of the index of duplicates (webcrawl.stores.sealed), unless it has changed.
-- KEYS
--   runs
-- ARGV
--   before    the list that the caller has read; "" for none
--   after
-- reply       1; 0 if another worker has changed it
if (redis.call('GET', runs) or '') ~= before then return 0 end
redis.call('SET', runs, after)
return 1
