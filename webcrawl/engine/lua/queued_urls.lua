#!lua flags=no-writes
-- Reads some of the URLs that are queued for a host, in the engine's lists.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    host, entries to skip, the most entries to read
-- reply   {entries that were read; 1 if there are more in the lists, else 0; URLs of the host in the store, entry...}; entries
--         that were queued again at a better level are read, but not among those of the reply
local P, host, skip, left, more, stored, read = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 0, 0, 0
local record, found = record_of(P, host), {}

local function take(entries)
  for _, entry in ipairs(entries) do
    if not (conf_of(P).credit and is_overtaken(P, host, entry)) then found[#found + 1] = entry end
  end
  read, left = read + #entries, left - #entries
end

if record.few then
  local few, some = few_entries(record.few), {}
  for i = skip + 1, math.min(#few, skip + left) do some[#some + 1] = few[i] end
  take(some)
  if skip + read < #few then more = 1 end
elseif has_urls(record) then
  local before = 0
  for _, level in ipairs(levels_of(P, record)) do
    local queue = queue_of(host, level)
    for _, list in ipairs({'q:', 'out:'}) do
      local length = redis.call('LLEN', P .. list .. queue)
      local from = math.max(0, skip - before)
      if from < length then
        if left > 0 then take(redis.call('LRANGE', P .. list .. queue, from, from + left - 1)) end
        if before + length > skip + read then more = 1 end
      end
      before = before + length
    end
    stored = stored + (tonumber(redis.call('HGET', P .. 'tails', queue)) or 0)
  end
end
return {read, more, stored, unpack(found)}
