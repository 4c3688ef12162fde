-- Give URLs, known or not, a date at which they are queued. One that has a date already gets the new one.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    ms from now, then pairs: host, entry
-- reply   how many had no date yet
local P, fresh = KEYS[1], 0
local due = now_ms() + ARGV[1]
for i = 2, #ARGV, 2 do
  fresh = fresh + redis.call('ZADD', P .. 'scheduled', due, delayed('-', ARGV[i], dated(ARGV[i + 1])))
end
redis.call('HINCRBY', P .. 'n', 'scheduled', fresh)
return fresh
