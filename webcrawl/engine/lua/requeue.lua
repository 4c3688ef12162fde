-- Queues dead letters again, with their counters at zero.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   reason    text that the reason of a letter must contain
-- each url
--   host, url
-- reply       how many entries were queued
local N, queued = P .. 'n', 0
for i = 1, n_url do
  local host, url = url_at(i)
  local letters = redis.call('HGET', P .. 'dead', url)
  if letters then
    local entries, left = {}, {}
    for _, letter in ipairs(cmsgpack.unpack(letters)) do
      if string.find(letter[1], reason, 1, true) then entries[#entries + 1] = with_counters_reset(letter[3])
      else left[#left + 1] = letter end
    end
    if #left == 0 then redis.call('HDEL', P .. 'dead', url)
    elseif #entries > 0 then redis.call('HSET', P .. 'dead', url, cmsgpack.pack(left)) end
    if #entries > 0 then
      moved(P, host, entries)
      enqueue(P, H, host, entries, false, now_ms())
      queued = queued + #entries
    end
  end
end
redis.call('HINCRBY', N, 'queued', queued)
redis.call('HINCRBY', N, 'added', queued)
redis.call('HINCRBY', N, 'dead', -queued)
return queued
