-- Adds a crawl to the list of crawls, which must all have the same layout: number of shards, and unit that takes turns.
-- KEYS
--   crawls
-- ARGV
--   crawl, layout
-- reply         the crawl; or, if nothing is added, a crawl with another layout
--   crawl, layout
--   new         1 if the crawl is new in the list
local new = 0
local known = redis.call('HGET', crawls, crawl)
local other = known and {crawl, known} or redis.call('HRANDFIELD', crawls, 1, 'WITHVALUES')
if other[2] and other[2] ~= layout then crawl, layout = other[1], other[2]
else new = redis.call('HSETNX', crawls, crawl, layout) end
return {crawl, layout, new}
