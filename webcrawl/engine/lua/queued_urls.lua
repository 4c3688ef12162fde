#!lua flags=no-writes
-- Reads some of the queued URLs of a host, in the engine's lists.
-- KEYS
--   P          the crawl's prefix in this shard
--   H          the prefix of host records
-- ARGV
--   host
--   #skip      entries to skip
--   #most      entries to read
-- reply
--   read       entries that were read
--   more       1 if the lists have more entries, else 0
--   stored     URLs of the host in the store
--   entries    the entries that were read, except entries that were queued again at a better level
local record, read, more, stored, entries = record_of(P, host), 0, 0, 0, {}

local function take_all(some)
  for _, entry in ipairs(some) do
    if not (conf_of(P).credit and is_overtaken(P, host, entry)) then entries[#entries + 1] = entry end
  end
  read, most = read + #some, most - #some
end

if record.few then
  local few, some = few_entries(record.few), {}
  for i = skip + 1, math.min(#few, skip + most) do some[#some + 1] = few[i] end
  take_all(some)
  if skip + read < #few then more = 1 end
elseif has_urls(record) then
  local before = 0
  for _, level in ipairs(levels_of(P, record)) do
    local queue = queue_of(host, level)
    for _, list in ipairs({'q:', 'out:'}) do
      local length = redis.call('LLEN', P .. list .. queue)
      local from = math.max(0, skip - before)
      if from < length then
        if most > 0 then take_all(redis.call('LRANGE', P .. list .. queue, from, from + most - 1)) end
        if before + length > skip + read then more = 1 end
      end
      before = before + length
    end
    stored = stored + (tonumber(redis.call('HGET', P .. 'tails', queue)) or 0)
  end
end
return {read, more, stored, entries}
