#!lua flags=allow-oom
-- Returns the events for which the shard waits: its next retry, and the next host that may be asked.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
-- reply         "" and 0 for a missing event
--   retry       host LF entry
--   retry_ms    until the retry
--   host
--   host_ms     until the host may be asked
--   failures    of the host in a row
local now = now_ms()
local retry, retry_ms, host, host_ms, failures = '', 0, '', 0, 0
local first = redis.call('ZRANGE', P .. 'later', 0, 0, 'WITHSCORES')
if first[1] then retry, retry_ms = string.match(first[1], '^%S+ (.*)$'), math.max(0, first[2] - now) end
-- hosts whose best level is not from 0 to 7 are ready at the nearest of these levels
local earliest
for level = 0, LEVELS - 1 do
  first = redis.call('ZRANGE', P .. 'ready:' .. level, 0, 0, 'WITHSCORES')
  if first[1] and (not earliest or tonumber(first[2]) < earliest) then
    earliest, host = tonumber(first[2]), host_of(first[1])
  end
end
if earliest then
  host_ms = math.max(0, earliest - now)
  failures = tonumber(redis.call('HGET', turn_key(H, host), own_field(H, host, 'failures'))) or 0
end
return {retry, retry_ms, host, host_ms, failures}
