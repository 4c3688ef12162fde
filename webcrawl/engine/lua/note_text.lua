-- Stores the current text of a URL.
-- KEYS
--   bucket    of texts
-- ARGV
--   url_id
--   text      SimHash (8 bytes) and the URL
-- reply       the previous SimHash and URL, or nil
local before = redis.call('HGET', bucket, url_id)
if before ~= text then redis.call('HSET', bucket, url_id, text) end
return before
