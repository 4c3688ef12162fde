#!lua flags=allow-oom
-- Plans the spill work of a shard. A segment to be written is announced as unused, so that the store never has a segment
-- that the engine does not know, even if its worker dies.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    a name for the segment, most URLs to write, most parts to read, ms that an unused segment is kept
-- reply   {{queue, {entry...}, ...}: parts to write, the fullest outboxes first, entries in order,
--          {queue, descriptor, ...}: parts to read for hot lists that run low,
--          {letter, descriptor, ...}: parts to read and bury; a letter is an element of "condemned",
--          {name, ...}: unused segments to delete}
local P, now, conf = KEYS[1], now_ms(), conf_of(KEYS[1])
local room, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local writes, reads, burials = {}, {}, {}
local MOST_BURIED = 2000

for _, queue in ipairs(redis.call('ZREVRANGE', P .. 'spilling', 0, 99)) do
  local left, from = redis.call('LLEN', P .. 'out:' .. queue), 0
  while left >= conf.part and room >= conf.part and not is_read(P, queue) do
    local n = math.min(left, 2 * conf.part, room)
    local first = conf.newest_first and -from - n or from
    writes[#writes + 1] = queue
    writes[#writes + 1] = redis.call('LRANGE', P .. 'out:' .. queue, first, first + n - 1)
    left, from, room = left - n, from + n, room - n
  end
end
if #writes > 0 then redis.call('ZADD', P .. 'unused', now, ARGV[1]) end

for _, queue in ipairs(redis.call('SRANDMEMBER', P .. 'hungry', most)) do
  local descriptor = redis.call('LINDEX', P .. 'tail:' .. queue, 0)
  if descriptor then
    reads[#reads + 1] = queue
    reads[#reads + 1] = descriptor
  else
    redis.call('SREM', P .. 'hungry', queue)
  end
end
-- a dead letter takes more memory than a queued URL, so most of a long queue's stay in the store
local buried = redis.call('HLEN', P .. 'dead') < MOST_BURIED
for _, letter in ipairs(buried and redis.call('LRANGE', P .. 'condemned', 0, most - 1) or {}) do
  burials[#burials + 1] = letter
  burials[#burials + 1] = cmsgpack.unpack(letter)[3]
end

-- marked, so that confirm_segment.lua does not use such a segment any more
local unused = redis.call('ZRANGEBYSCORE', P .. 'unused', '-inf', now - ARGV[4], 'LIMIT', 0, 100)
for _, name in ipairs(unused) do redis.call('ZADD', P .. 'unused', -1, name) end
return {writes, reads, burials, unused}
