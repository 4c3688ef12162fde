#!lua flags=allow-oom
-- Plans the spill work of a shard. A segment that will be written is announced as unused, so that the engine knows every
-- segment in the store, even if its worker dies.
-- KEYS
--   P             the crawl's prefix in this shard
--   H             the prefix of host records
-- ARGV
--   name          of the segment
--   #most_urls    to write
--   #most_parts   to read
--   kept_ms       for which an unused segment is kept
-- reply
--   writes        parts to write, the fullest outboxes first: queue, {entry...}, queue, {entry...}...
--   reads         parts to read for hot lists that run low: queue, descriptor, queue, descriptor...
--   burials       parts to read and bury: letter, descriptor...; a letter is an element of "condemned"
--   unused        names of segments to delete
local now, conf = now_ms(), conf_of(P)
local writes, reads, burials = {}, {}, {}
local MOST_BURIED = 2000

for _, queue in ipairs(redis.call('ZREVRANGE', P .. 'spilling', 0, 99)) do
  local left, from = redis.call('LLEN', P .. 'out:' .. queue), 0
  while left >= conf.part and most_urls >= conf.part and not is_read(P, queue) do
    local n = math.min(left, 2 * conf.part, most_urls)
    local first = conf.newest_first and -from - n or from
    writes[#writes + 1] = queue
    writes[#writes + 1] = redis.call('LRANGE', P .. 'out:' .. queue, first, first + n - 1)
    left, from, most_urls = left - n, from + n, most_urls - n
  end
end
if #writes > 0 then redis.call('ZADD', P .. 'unused', now, name) end

for _, queue in ipairs(redis.call('SRANDMEMBER', P .. 'hungry', most_parts)) do
  local descriptor = redis.call('LINDEX', P .. 'tail:' .. queue, 0)
  if descriptor then
    reads[#reads + 1] = queue
    reads[#reads + 1] = descriptor
  else
    redis.call('SREM', P .. 'hungry', queue)
  end
end
-- a dead letter takes more memory than a queued URL, so most dead letters of a long queue stay in the store
local buried = redis.call('HLEN', P .. 'dead') < MOST_BURIED
for _, letter in ipairs(buried and redis.call('LRANGE', P .. 'condemned', 0, most_parts - 1) or {}) do
  burials[#burials + 1] = letter
  burials[#burials + 1] = cmsgpack.unpack(letter)[3]
end

-- marked, so that confirm_segment.lua does not use the segment any more
local unused = redis.call('ZRANGEBYSCORE', P .. 'unused', '-inf', now - kept_ms, 'LIMIT', 0, 100)
for _, segment in ipairs(unused) do redis.call('ZADD', P .. 'unused', -1, segment) end
return {writes, reads, burials, unused}
