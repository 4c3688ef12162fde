-- Appends finished pages to the stream for listeners, which drops its oldest pages.
-- KEYS[1] the crawl's stream
-- ARGV    approximate number of pages to keep, then pages in JSON
-- reply   the length of the stream
for place = 2, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'page', ARGV[place])
end
return redis.call('XLEN', KEYS[1])
