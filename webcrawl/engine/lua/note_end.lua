#!lua flags=allow-oom
-- Notes why a run of a worker ended.
-- KEYS[1] the crawl's information
-- ARGV    the reason, one of a few words
-- reply   1
redis.call('HSET', KEYS[1], 'ended', ARGV[1])
return 1
