#!lua flags=allow-oom
-- Ends the turn of a planner.
-- KEYS
--   C         the crawl's own prefix
-- ARGV
--   worker
-- reply       1; 0 if another worker is the planner
if redis.call('GET', C .. 'planner') ~= worker then return 0 end
return redis.call('DEL', C .. 'planner')
