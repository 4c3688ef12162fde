-- Dead letters live again: their counters start anew.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    pairs: host, dead letter's URL, ...
-- reply   how many were queued
local P, queued = KEYS[1], 0
local function anew(entry) return string.sub(entry, 1, 1) .. string.char(0, 0, 0) .. string.sub(entry, 5) end
for i = 1, #ARGV, 2 do
  local letter = redis.call('HGET', P .. 'dead', ARGV[i + 1])
  if letter then
    redis.call('HDEL', P .. 'dead', ARGV[i + 1])
    push(P, ARGV[i], {anew(cmsgpack.unpack(letter)[3])}, false)
    make_ready(P, KEYS[2], ARGV[i], now_ms())
    queued = queued + 1
  end
end
redis.call('HINCRBY', P .. 'n', 'queued', queued)
redis.call('HINCRBY', P .. 'n', 'added', queued)
redis.call('HSET', P .. 'n', 'dead', redis.call('HLEN', P .. 'dead'))
return queued
