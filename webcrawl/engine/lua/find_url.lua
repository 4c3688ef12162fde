#!lua flags=no-writes
-- Looks for a URL among those that are queued for its host, in the engine's lists.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    host, path, the most entries to read
-- reply   {the entry, false if it was not found; 1 if all were read, 0 if more are in long lists or in the store}
local P, host, path, left, complete = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), 1
local record = record_of(P, host)
if not has_urls(record) and not record.few then return {false, 1} end

local function found_in(entries)
  for _, entry in ipairs(entries) do
    if path_of(entry) == path then return entry end
  end
end

if record.few then return {found_in(few_entries(record.few)) or false, 1} end
for _, level in ipairs(levels_of(P, record)) do
  local queue = queue_of(host, level)
  for _, list in ipairs({'q:', 'out:'}) do
    local entries = left > 0 and redis.call('LRANGE', P .. list .. queue, 0, left - 1) or {}
    local entry = found_in(entries)
    if entry then return {entry, 1} end
    left = left - #entries
    if redis.call('LLEN', P .. list .. queue) > #entries then complete = 0 end
  end
  if redis.call('EXISTS', P .. 'tail:' .. queue) == 1 then complete = 0 end
end
return {false, complete}
