-- Stores the current text of a URL.
-- KEYS[1] a bucket of texts
-- ARGV    id of the URL, SimHash (8 bytes) and the URL
-- reply   the previous SimHash and URL, or nil
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before ~= ARGV[2] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return before
