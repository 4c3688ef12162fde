-- Who had this payload first? Remembers the asker when nobody had, and instead of one that was not stored in time.
-- KEYS[1] a bucket of the checksum index
-- ARGV    checksum, time, URL and reading of the asker (see keys.py), seconds that a first one has to be stored
-- reply   those three of the first with this checksum (the asker's own when it is the first), behind a "?" until it is
--         stored
local first = redis.call('HGET', KEYS[1], ARGV[1])
local before, other = string.match(first or '', '^%??(%S+) (%S+)')
local now, mine = string.match(ARGV[2], '^(%S+) (%S+)')
local stored = first and string.sub(first, 1, 1) ~= '?'
if stored or first and other ~= mine and tonumber(now) < tonumber(before) + tonumber(ARGV[3]) then return first end
first = '?' .. ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], first)
return first
