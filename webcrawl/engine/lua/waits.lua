#!lua flags=allow-oom
-- Tells what the shard waits for: its next retry, and the next host that may be asked.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    none
-- reply   {host LF entry, ms until its retry, host, ms until it may be asked, its failures in a row};
--         "" and 0 for what is missing
local P, H, now = KEYS[1], KEYS[2], now_ms()
local reply = {'', 0, '', 0, 0}
local retry = redis.call('ZRANGE', P .. 'later', 0, 0, 'WITHSCORES')
if retry[1] then
  reply[1], reply[2] = string.match(retry[1], '^%S+ (.*)$'), math.max(0, retry[2] - now)
end
-- hosts whose best level is another one are ready at the nearest of these
local earliest
for level = 0, LEVELS - 1 do
  local first = redis.call('ZRANGE', P .. 'ready:' .. level, 0, 0, 'WITHSCORES')
  if first[1] and (not earliest or tonumber(first[2]) < earliest) then
    earliest, reply[3] = tonumber(first[2]), host_of(first[1])
  end
end
if earliest then
  reply[4] = math.max(0, earliest - now)
  reply[5] = tonumber(redis.call('HGET', turn_key(H, reply[3]), own_field(H, reply[3], 'failures'))) or 0
end
return reply
