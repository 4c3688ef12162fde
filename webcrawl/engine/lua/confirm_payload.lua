#!lua flags=allow-oom
-- Confirms that a page is stored: if it is the first with its payload, copies may refer to it.
-- KEYS
--   bucket      of the checksum index
-- ARGV
--   checksum
--   page        "time URL reading"
-- reply         1; 0 if another page is the first
local first = redis.call('HGET', bucket, checksum)
if not first or string.match(first, ' (%S+)') ~= string.match(page, ' (%S+)') then return 0 end
redis.call('HSET', bucket, checksum, page)
return 1
