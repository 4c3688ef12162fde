#!lua flags=allow-oom
-- Replaces a part of a queue in the store by another one, without URLs that are changed.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, level, descriptor of the part, that of the new part ("" = no URLs are left), how many entries leave, these
--         entries, then for each URL: path, level, date or drop, as for set_urls.lua
-- reply   {} while the shard is copied; {"lost"} if the part has moved, or its new segment was announced too long ago;
--         else {an outcome for each URL}
local P, H, now, host, level = KEYS[1], KEYS[2], now_ms(), ARGV[1], tonumber(ARGV[2])
if is_copied(P) then return {} end
local queue, old, new, n = queue_of(host, level), ARGV[3], ARGV[4], tonumber(ARGV[5])
local record, tail, entries = record_of(P, host), P .. 'tail:' .. queue, {unpack(ARGV, 6, 5 + n)}
local place, before = redis.call('LPOS', tail, old), standing(P, record)
local name = part_of(new)
local announced = name and tonumber(redis.call('ZSCORE', P .. 'unused', name))
if not place or name and (not announced or announced < 0) then return {'lost'} end

local changes, outcomes = changes_from(6 + n)
local leave, again = change_all(P, host, entries, changes, outcomes, now)
-- the new part is without all of them
for i = 1, #leave do leave[leave[i]] = true end
for i, entry in ipairs(entries) do
  if leave[i] ~= true then again[#again + 1] = entry end
end
if name then
  redis.call('LSET', tail, place, new)
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
