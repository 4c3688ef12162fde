#!lua flags=allow-oom
-- Empties a purse: the spent credit is in transit until its worker spends again, the rest goes to Lambda. Also takes credit
-- from Lambda for another shard. A repeated call changes nothing.
-- KEYS
--   P          the crawl's prefix in this shard
-- ARGV
--   purse
--   number     of the call
--   #others    URLs that wait in other shards
--   #wanted    credit to take from Lambda
--   to_shard, to_number
--              the call of receive.lua that gets this credit
-- each part    for another call of receive.lua
--   shard, delivery, credit
-- reply        empty if the purse is closed or has less
--   waiting    URLs that wait
--   pool       Lambda's credit
--   taken      credit taken from Lambda
local now, key = now_ms(), purse_of(P, purse)
local state = redis.call('HMGET', key, 'closed', 'number', 'wallet', 'taken')
if state[1] then return {} end
local known = ledger_of(P)
known.others = others
local taken = tonumber(state[4]) or 0
if state[2] ~= number then
  local left, transit = tonumber(state[3]) or 0, {}
  taken = wanted
  for i = 1, n_part do
    local shard, delivery, credit = part_at(i)
    left = left - credit
    transit[i] = shard .. ' ' .. delivery .. ' ' .. credit
  end
  if left < 0 then return {} end
  if taken > known.pool then taken = 0 end
  if taken > 0 then transit[#transit + 1] = to_shard .. ' ' .. to_number .. ' ' .. string.format('%.0f', taken) end
  known.pool = known.pool + left - taken
  redis.call('HSET', key, 'number', number, 'wallet', 0, 'taken', taken, 'transit', table.concat(transit, '\n'))
  redis.call('ZADD', P .. 'purses', now, purse)
end
save_ledger(P)
local waiting, pool = known.waiting, known.pool
return {waiting, pool, taken}
