#!lua flags=no-writes
-- Looks for a URL among the queued URLs of its host, in the engine's lists.
-- KEYS
--   P           the crawl's prefix in this shard
-- ARGV
--   host, path
--   #most       entries to read
-- reply
--   entry       the entry of the URL; false if it was not found
--   complete    1 if it was found or all entries were read, 0 if more are in long lists or in the store
local record, complete = record_of(P, host), 1
local entry = false
if not has_urls(record) and not record.few then return {entry, complete} end

local function entry_among(entries)
  for _, candidate in ipairs(entries) do
    if path_of(candidate) == path then return candidate end
  end
  return false
end

if record.few then
  entry = entry_among(few_entries(record.few))
  return {entry, complete}
end
for _, level in ipairs(levels_of(P, record)) do
  local queue = queue_of(host, level)
  for _, list in ipairs({'q:', 'out:'}) do
    local entries = most > 0 and redis.call('LRANGE', P .. list .. queue, 0, most - 1) or {}
    entry = entry_among(entries)
    if entry then
      complete = 1
      return {entry, complete}
    end
    most = most - #entries
    if redis.call('LLEN', P .. list .. queue) > #entries then complete = 0 end
  end
  if redis.call('EXISTS', P .. 'tail:' .. queue) == 1 then complete = 0 end
end
return {entry, complete}
