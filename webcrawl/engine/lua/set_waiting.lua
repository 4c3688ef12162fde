#!lua flags=allow-oom
-- Changes URLs that wait for another attempt or for a date.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    "later" | "scheduled", then for each: its member of that sorted set, level ("" = as it is), ms of its date, "drop" or ""
-- reply   an outcome for each, see common/changes.lua; "h" while the shard is copied
local P, now, set, outcomes = KEYS[1], now_ms(), ARGV[1], {}
if is_copied(P) then return 'h' end
for i = 2, #ARGV, 3 do
  local member, level, due = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local score, cut = tonumber(redis.call('ZSCORE', P .. set, member)), string.find(member, '\n', 1, true)
  local outcome = score and '2' or '0'
  if score then
    local head, entry = string.sub(member, 1, cut), string.sub(member, cut + 1)
    local host = string.sub(head, string.find(head, ' ', 1, true) + 1, -2)
    local new = level and level ~= level_of(entry) and at_level(entry, level) or entry
    local at = due and due + ms_ahead() or score
    if ARGV[i + 2] == 'drop' or new ~= entry or at ~= score then
      outcome = '1'
      redis.call('ZREM', P .. set, member)
      local added = 0
      if ARGV[i + 2] == 'drop' then drop_url(P, host, entry, now)
      else added = redis.call('ZADD', P .. set, at, head .. new) end
      if new ~= entry then leave_level(P, host, entry) end
      redis.call('HINCRBY', P .. 'n', set, added - 1)
    end
  end
  outcomes[#outcomes + 1] = outcome
end
save_ledger(P)
return table.concat(outcomes)
