#!lua flags=allow-oom
-- Notes why a run of a worker ended.
-- KEYS
--   info      of the crawl
-- ARGV
--   reason    one of a few words
-- reply       1
redis.call('HSET', info, 'ended', reason)
return 1
