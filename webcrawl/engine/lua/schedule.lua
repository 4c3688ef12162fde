-- Schedules URLs, seen or not, for a date. A URL with a date gets the new one.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    ms from now, then pairs: host, entry
-- reply   how many had no date before
local P, fresh = KEYS[1], 0
local due = now_ms() + ARGV[1]
for i = 2, #ARGV, 2 do
  fresh = fresh + redis.call('ZADD', P .. 'scheduled', due, delayed('-', ARGV[i], dated(ARGV[i + 1])))
end
redis.call('HINCRBY', P .. 'n', 'scheduled', fresh)
return fresh
