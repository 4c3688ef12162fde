-- Schedules URLs, seen or not, for a date. The new date of a URL replaces an old date.
-- KEYS
--   P        the crawl's prefix in this shard
--   H        the prefix of host records
-- ARGV
--   ms       from now until the date
-- each url
--   host, entry
-- reply      number of URLs that had no date before
local due, fresh = now_ms() + ms, 0
for i = 1, n_url do
  local host, entry = url_at(i)
  fresh = fresh + redis.call('ZADD', P .. 'scheduled', due, delayed('-', host, dated(entry)))
end
redis.call('HINCRBY', P .. 'n', 'scheduled', fresh)
return fresh
