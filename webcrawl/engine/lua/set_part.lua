#!lua flags=allow-oom
-- Replaces a part of a queue in the store by a part without the URLs that are changed.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   host
--   #level
--   old         descriptor of the part
--   new         descriptor of the new part; "" = no URLs are left
-- list entries  entries of the old part that the new part does not have
-- each url
--   path
--   #level      "" = unchanged
--   date        ms, "drop" or ""
-- reply         {} while the shard is copied; {"lost"} if the part has moved, or its new segment was announced too long ago;
--               else {an outcome for each URL, see common/changes.lua}
if is_copied(P) then return {} end
local now, queue, record, n = now_ms(), queue_of(host, level), record_of(P, host), #entries
local tail, before = P .. 'tail:' .. queue, standing(P, record)
local index, name = redis.call('LPOS', tail, old), part_of(new)
local announced = name and tonumber(redis.call('ZSCORE', P .. 'unused', name))
if not index or name and (not announced or announced < 0) then return {'lost'} end

local changes, outcomes = changes_of(n_url, url_at)
local leave, again = change_all(P, host, entries, changes, outcomes, now)
-- the new part has none of `entries`, so the unchanged entries are queued too
for i = 1, #leave do leave[leave[i]] = true end
for i, entry in ipairs(entries) do
  if leave[i] ~= true then again[#again + 1] = entry end
end
if name then
  redis.call('LSET', tail, index, new)
  redis.call('HSET', P .. 'segments', name, 1)
  redis.call('ZREM', P .. 'unused', name)
  redis.call('HINCRBY', P .. 'n', 'spilled', (select(2, part_of(new))))
else
  redis.call('LREM', tail, 1, old)
end
part_is_done(P, old, now)
if redis.call('HINCRBY', P .. 'tails', queue, -n) <= 0 then redis.call('HDEL', P .. 'tails', queue) end
count_entries(P, record, level, -n)
feed(P, record, level)
if redis.call('EXISTS', P .. 'q:' .. queue) == 0 and not is_closed(P, record, level) then drop_level(P, record, level) end
queue_anew(P, H, record, before, n, again, now)
save_ledger(P)
return {table.concat(outcomes)}
