-- Dead letters live again: their counters start anew.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    pairs: host, URL
-- reply   how many were queued
local P, N, queued = KEYS[1], KEYS[1] .. 'n', 0
for i = 1, #ARGV, 2 do
  local letters = redis.call('HGET', P .. 'dead', ARGV[i + 1])
  if letters then
    local entries = {}
    for j, letter in ipairs(cmsgpack.unpack(letters)) do entries[j] = anew(letter[3]) end
    redis.call('HDEL', P .. 'dead', ARGV[i + 1])
    push(P, ARGV[i], entries, false)
    make_ready(P, KEYS[2], ARGV[i], now_ms())
    queued = queued + #entries
  end
end
redis.call('HINCRBY', N, 'queued', queued)
redis.call('HINCRBY', N, 'added', queued)
redis.call('HINCRBY', N, 'dead', -queued)
return queued
