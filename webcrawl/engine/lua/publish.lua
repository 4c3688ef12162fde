-- Appends finished pages to the stream for listeners, and drops the oldest pages of the stream.
-- KEYS
--   stream    of the crawl
-- ARGV
--   most      approximate number of pages to keep
-- list pages  in JSON
-- reply       the length of the stream
for _, page in ipairs(pages) do redis.call('XADD', stream, 'MAXLEN', '~', most, '*', 'page', page) end
return redis.call('XLEN', stream)
