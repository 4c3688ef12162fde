#!lua flags=allow-oom
-- Changes URLs that wait for another attempt or for a date.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   set         "later" | "scheduled"
-- each url
--   member      of that sorted set
--   #level      "" = unchanged
--   date        ms, "drop" or ""
-- reply         an outcome for each, see common/changes.lua; "h" while the shard is copied
if is_copied(P) then return 'h' end
local now, outcomes = now_ms(), {}
for i = 1, n_url do
  local member, level, date = url_at(i)
  local score, cut, due = tonumber(redis.call('ZSCORE', P .. set, member)), string.find(member, '\n', 1, true), tonumber(date)
  local outcome = score and '2' or '0'
  if score then
    local head, entry = string.sub(member, 1, cut), string.sub(member, cut + 1)
    local host = string.sub(head, string.find(head, ' ', 1, true) + 1, -2)
    local new = level and level ~= level_of(entry) and at_level(entry, level) or entry
    local at = due and due + ms_ahead() or score
    if date == 'drop' or new ~= entry or at ~= score then
      outcome = '1'
      redis.call('ZREM', P .. set, member)
      local added = 0
      if date == 'drop' then drop_url(P, host, entry, now)
      else added = redis.call('ZADD', P .. set, at, head .. new) end
      if new ~= entry then leave_level(P, host, entry) end
      redis.call('HINCRBY', P .. 'n', set, added - 1)
    end
  end
  outcomes[i] = outcome
end
save_ledger(P)
return table.concat(outcomes)
