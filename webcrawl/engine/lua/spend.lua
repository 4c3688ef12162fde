#!lua flags=allow-oom
-- Empties a purse: what it spends is in transit until its worker spends again, the rest goes to Lambda. Takes credit from
-- Lambda for another shard too. A call that is repeated changes nothing.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    purse, number of the call, URLs that wait in other shards, credit to take from Lambda, shard and number of the call
--         of receive.lua that gets it, then for each other call of receive.lua: shard, number, credit
-- reply   {} if the purse is closed or has less, else {URLs that wait, Lambda's credit, credit taken from Lambda}
local P, now, key = KEYS[1], now_ms(), purse_of(KEYS[1], ARGV[1])
local state = redis.call('HMGET', key, 'closed', 'number', 'wallet', 'taken')
if state[1] then return {} end
local known = ledger_of(P)
known.others = tonumber(ARGV[3])
local taken = tonumber(state[4]) or 0
if state[2] ~= ARGV[2] then
  local left, transit = tonumber(state[3]) or 0, {}
  taken = tonumber(ARGV[4])
  for i = 7, #ARGV, 3 do
    left = left - ARGV[i + 2]
    transit[#transit + 1] = ARGV[i] .. ' ' .. ARGV[i + 1] .. ' ' .. ARGV[i + 2]
  end
  if left < 0 then return {} end
  if taken > known.pool then taken = 0 end
  if taken > 0 then transit[#transit + 1] = ARGV[5] .. ' ' .. ARGV[6] .. ' ' .. ARGV[4] end
  known.pool = known.pool + left - taken
  redis.call('HSET', key, 'number', ARGV[2], 'wallet', 0, 'taken', taken, 'transit', table.concat(transit, '\n'))
  redis.call('ZADD', P .. 'purses', now, ARGV[1])
end
save_ledger(P)
return {known.waiting, known.pool, taken}
