-- Returns the first page with a payload, and makes the caller's page the first one if there is none or if the first one
-- was not stored in time.
-- KEYS[1] a bucket of the checksum index
-- ARGV    checksum, "time URL reading" of the caller's page (see keys.py), seconds in which a first page must be stored
-- reply   "time URL reading" of the first page, after a "?" until it is stored
local first = redis.call('HGET', KEYS[1], ARGV[1])
local before, other = string.match(first or '', '^%??(%S+) (%S+)')
local now, mine = string.match(ARGV[2], '^(%S+) (%S+)')
local stored = first and string.sub(first, 1, 1) ~= '?'
if stored or first and other ~= mine and tonumber(now) < tonumber(before) + tonumber(ARGV[3]) then return first end
first = '?' .. ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], first)
return first
