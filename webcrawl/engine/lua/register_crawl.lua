-- Enter a crawl in the list of crawls, all of which must have the same number of shards.
-- KEYS[1] the list
-- ARGV    crawl, its number of shards
-- reply   a crawl that has another number, and that number: this one was not entered; or the crawl itself, its number,
--         and 1 when it was not in the list before
local known = redis.call('HGET', KEYS[1], ARGV[1])
local other = known and {ARGV[1], known} or redis.call('HRANDFIELD', KEYS[1], 1, 'WITHVALUES')
if other[2] and other[2] ~= ARGV[2] then return {other[1], other[2], 0} end
return {ARGV[1], ARGV[2], redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])}
