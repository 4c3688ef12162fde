#!lua flags=allow-oom
-- A page is stored: from now on its payload stands for those of copies, if it is the first that had it.
-- KEYS[1] a bucket of the checksum index
-- ARGV    checksum, time, URL and reading of the page
-- reply   1, or 0: another one is the first
local first = redis.call('HGET', KEYS[1], ARGV[1])
if not first or string.match(first, ' (%S+)') ~= string.match(ARGV[2], ' (%S+)') then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
