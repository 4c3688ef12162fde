#!lua flags=allow-oom
-- Returns the queues of some hosts, for a checkpoint, without entries that were queued again at a better level.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   #room     the most entries
-- list hosts
-- reply each  the first host, and as many of the next hosts as fit
--   host
--   queues    each {level, {part...}, {entry...}, {entry...}}: its parts in the store, hot list and outbox. If the lists
--             are too long it is {level, {part...}}: copy_piece.lua reads the lists, and nothing moves from them to the
--             store meanwhile.
local copies = {}

local function all_of(key) return redis.call('LRANGE', key, 0, -1) end

local function live(host, entries)
  if not conf_of(P).credit then return entries end
  local current = {}
  for _, entry in ipairs(entries) do
    if not is_overtaken(P, host, entry) then current[#current + 1] = entry end
  end
  return current
end

for i, host in ipairs(hosts) do
  local queues, left = {}, room
  local record = record_of(P, host)
  local few = record.few and few_entries(record.few)
  for _, level in ipairs(levels_of(P, record)) do
    local queue = queue_of(host, level)
    local hot, out, parts = P .. 'q:' .. queue, P .. 'out:' .. queue, {}
    local n = few and #few or redis.call('LLEN', hot)
    if is_closed(P, record, level) then
      n = n + redis.call('LLEN', out)
      parts = all_of(P .. 'tail:' .. queue)
    end
    if n <= left or few and i == 1 then
      queues[#queues + 1] = {classes.level_text(level), parts, live(host, few or all_of(hot)), live(host, all_of(out))}
      left = left - n
    elseif i > 1 then
      return copies
    else
      redis.call('HSET', P .. 'reading', queue, 0, 'out:' .. queue, 0)
      redis.call('PEXPIRE', P .. 'reading', JOURNAL_MS)
      queues[#queues + 1] = {classes.level_text(level), parts}
    end
  end
  room = left
  copies[i] = {host, queues}
end
return copies
