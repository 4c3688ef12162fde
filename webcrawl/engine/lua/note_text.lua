-- Note the text that a URL has now.
-- KEYS[1] a bucket of texts
-- ARGV    id of the URL, its SimHash (8 bytes) and the URL
-- reply   what was noted of it before, or nothing
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before ~= ARGV[2] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return before
