-- Returns the first page with a payload. The caller's page becomes the first if the payload is new, or if the first page was
-- not stored in time.
-- KEYS
--   bucket          of the checksum index
-- ARGV
--   checksum
--   page            "time URL reading" of the caller's page, see keys.py
--   seconds         in which a first page must be stored
-- reply             "time URL reading" of the first page, after a "?" until that page is stored
local first = redis.call('HGET', bucket, checksum)
local before, other = string.match(first or '', '^%??(%S+) (%S+)')
local now, mine = string.match(page, '^(%S+) (%S+)')
local stored = first and string.sub(first, 1, 1) ~= '?'
if stored or first and other ~= mine and tonumber(now) < tonumber(before) + tonumber(seconds) then return first end
first = '?' .. page
redis.call('HSET', bucket, checksum, first)
return first
