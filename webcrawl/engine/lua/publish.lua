-- Finished pages for listeners: appended to a stream that forgets its oldest ones.
-- KEYS[1] the crawl's stream
-- ARGV    how many pages it keeps, about; each further one a page, in JSON
-- reply   how many it has now
for place = 2, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'page', ARGV[place])
end
return redis.call('XLEN', KEYS[1])
