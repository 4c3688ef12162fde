-- Queues dead letters again, with their counters at zero.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    text that the reason of a letter must contain, then pairs: host, URL
-- reply   how many entries were queued
local P, N, queued = KEYS[1], KEYS[1] .. 'n', 0
for i = 2, #ARGV, 2 do
  local letters = redis.call('HGET', P .. 'dead', ARGV[i + 1])
  if letters then
    local entries, left = {}, {}
    for _, letter in ipairs(cmsgpack.unpack(letters)) do
      if string.find(letter[1], ARGV[1], 1, true) then entries[#entries + 1] = with_counters_reset(letter[3])
      else left[#left + 1] = letter end
    end
    if #left == 0 then redis.call('HDEL', P .. 'dead', ARGV[i + 1])
    elseif #entries > 0 then redis.call('HSET', P .. 'dead', ARGV[i + 1], cmsgpack.pack(left)) end
    if #entries > 0 then
      moved(P, ARGV[i], entries)
      enqueue(P, KEYS[2], ARGV[i], entries, false, now_ms())
      queued = queued + #entries
    end
  end
end
redis.call('HINCRBY', N, 'queued', queued)
redis.call('HINCRBY', N, 'added', queued)
redis.call('HINCRBY', N, 'dead', -queued)
return queued
