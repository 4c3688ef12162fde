#!lua flags=allow-oom
-- What time it is for the scripts of a shard, or for those of a crawl as a whole.
-- KEYS[1] any key or prefix of the shard or the crawl
-- ARGV    none
-- reply   ms
return now_ms()
