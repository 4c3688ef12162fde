#!lua flags=allow-oom
-- Confirms that a page is stored: if it is the first with its payload, copies may refer to it.
-- KEYS[1] a bucket of the checksum index
-- ARGV    checksum, "time URL reading" of the page
-- reply   1; 0 if another page is the first
local first = redis.call('HGET', KEYS[1], ARGV[1])
if not first or string.match(first, ' (%S+)') ~= string.match(ARGV[2], ' (%S+)') then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
