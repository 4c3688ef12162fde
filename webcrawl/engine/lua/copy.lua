#!lua flags=allow-oom
-- Returns the queues of some hosts, for a checkpoint, without entries that were queued again at a better level.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    most entries, hosts
-- reply   {host, {queue...}} for each host, for at least one and as many as fit. A queue is {level, {part...},
--         {entry...}, {entry...}}: its parts in the store, hot list and outbox. If the lists are too long it is
--         {level, {part...}}: copy_piece.lua reads the lists, and nothing moves from them to the store meanwhile.
local P, room, reply = KEYS[1], tonumber(ARGV[1]), {}

local function all_of(key) return redis.call('LRANGE', key, 0, -1) end

local function live(host, entries)
  if not conf_of(P).credit then return entries end
  local found = {}
  for _, entry in ipairs(entries) do
    if not is_overtaken(P, host, entry) then found[#found + 1] = entry end
  end
  return found
end

for i = 2, #ARGV do
  local host, queues, left = ARGV[i], {}, room
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
    if n <= left or few and i == 2 then
      queues[#queues + 1] = {level, parts, live(host, few or all_of(hot)), live(host, all_of(out))}
      left = left - n
    elseif i > 2 then
      return reply
    else
      redis.call('HSET', P .. 'reading', queue, 0, 'out:' .. queue, 0)
      redis.call('PEXPIRE', P .. 'reading', JOURNAL_MS)
      queues[#queues + 1] = {level, parts}
    end
  end
  room = left
  reply[#reply + 1] = {host, queues}
end
return reply
