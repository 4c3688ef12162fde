-- Queues URLs again that wait at a worse level, with the depth at which they were found, and the time if it is known. The
-- entry there is passed over when its turn comes.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    for each URL: host, levels by which importance has changed its level, entry
-- reply   how many were queued
local P, now, queued = KEYS[1], now_ms(), 0
for i = 1, #ARGV, 3 do
  local host, entry = ARGV[i], ARGV[i + 2]
  local page, level = page_of(P, number_of(host .. path_of(entry))), string.byte(entry, 1)
  if page.stored and not page.left and level <= page.level then
    page.rise = tonumber(ARGV[i + 1])
    if level < page.level then
      local array, now_queued = without_time(entry)
      local fields = cmsgpack.unpack(string.sub(array, 5))
      fields[2] = page.depth
      page.level, queued = level, queued + 1
      enqueue(P, KEYS[2], host, {string.sub(entry, 1, 4) .. cmsgpack.pack(fields) .. (page.time or now_queued)}, false, now)
    end
    save_page(P, page)
  end
end
if queued > 0 then
  redis.call('HINCRBY', P .. 'n', 'queued', queued)
  redis.call('HINCRBY', P .. 'n', 'overtaken', queued)
end
return queued
