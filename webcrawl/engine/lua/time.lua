#!lua flags=allow-oom
-- Returns the time of the scripts of a shard, or of a crawl as a whole.
-- KEYS
--   P    any key or prefix of the shard or the crawl
-- ARGV
-- reply  ms
return now_ms()
