#!lua flags=allow-oom
-- Changes URLs that wait in the engine's lists of a host: in all of them if they are short, or in a piece of one.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, most entries, level ("" = all lists), "q:" for its hot list or "out:" for its outbox, how many entries from the
--         end of the list are passed over, then for each URL: path, level ("" = as it is), ms of its date, "drop" or ""
-- reply   {} while the shard is copied, else {an outcome for each URL, see common/changes.lua; entries that were read, -1 if
--         the lists are too long; entries that left; levels with parts in the store, or all if the lists are too long}
local P, H, now, host, most = KEYS[1], KEYS[2], now_ms(), ARGV[1], tonumber(ARGV[2])
if is_copied(P) then return {} end
local record, changes, outcomes = record_of(P, host), changes_from(6)
local before, read, left, again, stored = standing(P, record), 0, 0, {}, {}

-- Takes entries from a list of changed ones.
local function change_list(level, list, passed)
  local queue = queue_of(host, level)
  local key = P .. list .. queue
  local entries = redis.call('LRANGE', key, -passed - most, -passed - 1)
  local leave, more = change_all(P, host, entries, changes, outcomes, now)
  for _, i in ipairs(leave) do redis.call('LSET', key, i - 1 - #entries - passed, '') end
  if #leave > 0 then
    redis.call('LREM', key, -#leave, '')
    count_entries(P, record, level, -#leave)
    if list == 'out:' then outbox_has(P, queue, redis.call('LLEN', key)) end
    if is_closed(P, record, level) then feed(P, record, level) end
    if redis.call('EXISTS', P .. 'q:' .. queue) == 0 and not is_closed(P, record, level) then drop_level(P, record, level) end
  end
  read, left = read + #entries, left + #leave
  for _, entry in ipairs(more) do again[#again + 1] = entry end
end

local function change_few()
  local entries, stay = few_entries(record.few), {}
  local leave, more = change_all(P, host, entries, changes, outcomes, now)
  for i = #leave, 1, -1 do table.remove(entries, leave[i]) end
  if #leave > 0 then keep_few(record, entries) end
  left, again = #leave, more
end

if ARGV[3] ~= '' then
  change_list(tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]))
elseif record.few then
  change_few()
else
  local levels, length = levels_of(P, record), 0
  for _, level in ipairs(levels) do
    local queue = queue_of(host, level)
    length = length + redis.call('LLEN', P .. 'q:' .. queue) + redis.call('LLEN', P .. 'out:' .. queue)
    if redis.call('EXISTS', P .. 'tail:' .. queue) == 1 then stored[#stored + 1] = queue_of('', level) end
  end
  if length > most then
    for i, level in ipairs(levels) do levels[i] = queue_of('', level) end
    return {'', -1, 0, levels}
  end
  for _, level in ipairs(levels) do
    change_list(level, 'q:', 0)
    change_list(level, 'out:', 0)
  end
end
if left > 0 then queue_anew(P, H, record, before, left, again, now) end
save_ledger(P)
return {table.concat(outcomes), read, left, stored}
