-- Adds a crawl to the list of crawls, which must all have the same layout: number of shards, and what takes turns.
-- KEYS[1] the list
-- ARGV    crawl, its layout
-- reply   {crawl, its layout, 1 if it is new in the list}; if another crawl has another layout, nothing is added and the
--         reply is {that crawl, its layout, 0}
local known = redis.call('HGET', KEYS[1], ARGV[1])
local other = known and {ARGV[1], known} or redis.call('HRANDFIELD', KEYS[1], 1, 'WITHVALUES')
if other[2] and other[2] ~= ARGV[2] then return {other[1], other[2], 0} end
return {ARGV[1], ARGV[2], redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])}
