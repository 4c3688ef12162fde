-- Adds those who wait for URLs of the live lane. Queues each URL for which nobody waited.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
-- each ask
--   host
--   path
--   entry
--   key       of the ask; the same ask is added once
--   record
--   again     "1" = queue the URL even if others wait for it
-- reply       one character for each ask, in order: "1" queued, "0" others wait already
local now, verdicts, queued = now_ms(), {}, 0
for i = 1, n_ask do
  local host, path, entry, key, record, again = ask_at(i)
  local known = redis.call('HGET', P .. 'asks', host .. path)
  local asks = known and cmsgpack.unpack(known) or {}
  asks[key] = record
  redis.call('HSET', P .. 'asks', host .. path, cmsgpack.pack(asks))
  local is_new = not known or again == '1'
  verdicts[i] = is_new and '1' or '0'
  if is_new then
    enqueue(P, H, host, {entry}, false, now)
    queued = queued + 1
  end
end
if queued > 0 then
  redis.call('HINCRBY', P .. 'n', 'queued', queued)
  redis.call('HINCRBY', P .. 'n', 'added', queued)
  redis.call('PUBLISH', 'wc:asked', queued)
end
save_ledger(P)
return table.concat(verdicts)
