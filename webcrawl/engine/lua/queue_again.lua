-- Queues URLs again that wait at a worse level, with the depth at which they were found and, if known, the time. The old
-- entry is passed over when its turn comes.
-- KEYS
--   P        the crawl's prefix in this shard
--   H        the prefix of host records
-- ARGV
-- each url
--   host
--   #rise    levels by which importance has changed the level of the URL
--   entry
-- reply      how many were queued
local now, queued = now_ms(), 0
for i = 1, n_url do
  local host, rise, entry = url_at(i)
  local page, level = page_of(P, number_of(host .. path_of(entry))), string.byte(entry, 1)
  if page.stored and not page.left and level <= page.level then
    page.rise = rise
    if level < page.level then
      local array, now_queued = without_time(entry)
      local fields = cmsgpack.unpack(string.sub(array, 5))
      fields[2] = page.depth
      page.level, queued = level, queued + 1
      enqueue(P, H, host, {string.sub(entry, 1, 4) .. cmsgpack.pack(fields) .. (page.time or now_queued)}, false, now)
      redis.call('HINCRBY', P .. 'overtaken', host, 1)
    end
    save_page(P, page)
  end
end
if queued > 0 then
  redis.call('HINCRBY', P .. 'n', 'queued', queued)
  redis.call('HINCRBY', P .. 'n', 'overtaken', queued)
end
return queued
