#!lua flags=allow-oom
-- Counts the pages that are queued or leased to be fetched again.
-- KEYS
--   P        the crawl's prefix in this shard
-- ARGV
-- reply
--   open        all of them
--   due         those whose date has come
--   oldest      ms since the oldest date that has come
--   of_classes  how many of `open` are of each class, in the order of their numbers; 0 without TRAFFIC
local now = now_ms()
local first = redis.call('ZRANGE', P .. 'planned', 0, 0, 'WITHSCORES')
local open, due = redis.call('ZCARD', P .. 'planned'), redis.call('ZCOUNT', P .. 'planned', '-inf', now)
local oldest = math.max(0, math.floor(now - (tonumber(first[2]) or now)))
local of_classes = {}
for class = 0, classes.UPDATE_CHK do
  of_classes[class + 1] = tonumber(redis.call('HGET', P .. 'planning', ' ' .. class) or 0)
end
return {open, due, oldest, of_classes}
