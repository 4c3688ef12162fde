#!lua flags=allow-oom
-- Notes why and when a run of a worker ended.
-- KEYS
--   info      of the crawl
-- ARGV
--   reason    one of a few words
-- reply       1
redis.call('HSET', info, 'ended', reason, 'ended_ms', now_ms())
return 1
