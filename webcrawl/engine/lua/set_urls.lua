#!lua flags=allow-oom
-- Changes URLs that wait in the engine's lists of a host: in all lists if they are short, or in a piece of one list.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   host
--   #most       entries to read
--   #level      "" = all lists
--   list        "q:" for the hot list of the level, "out:" for its outbox
--   #passed     entries from the end of the list that are passed over
-- each url
--   path
--   #level      "" = unchanged
--   date        ms, "drop" or ""
-- reply         empty while the shard is copied
--   outcomes    of the URLs, see common/changes.lua
--   read        entries that were read, -1 if the lists are too long
--   left        entries that left
--   levels      levels with parts in the store, or all levels if the lists are too long
if is_copied(P) then return {} end
local now, record, changes, outcomes = now_ms(), record_of(P, host), changes_of(n_url, url_at)
local before, read, left, again, levels = standing(P, record), 0, 0, {}, {}

-- Changes the entries of a list.
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

if level then
  change_list(level, list, passed)
elseif record.few then
  change_few()
else
  local all_levels, length = levels_of(P, record), 0
  for _, each in ipairs(all_levels) do
    local queue = queue_of(host, each)
    length = length + redis.call('LLEN', P .. 'q:' .. queue) + redis.call('LLEN', P .. 'out:' .. queue)
    if redis.call('EXISTS', P .. 'tail:' .. queue) == 1 then levels[#levels + 1] = queue_of('', each) end
  end
  if length > most then
    for i, each in ipairs(all_levels) do levels[i] = queue_of('', each) end
    outcomes, read = '', -1
    return {outcomes, read, left, levels}
  end
  for _, each in ipairs(all_levels) do
    change_list(each, 'q:', 0)
    change_list(each, 'out:', 0)
  end
end
if left > 0 then queue_anew(P, H, record, before, left, again, now) end
save_ledger(P)
outcomes = table.concat(outcomes)
return {outcomes, read, left, levels}
