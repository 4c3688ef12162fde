#!lua flags=allow-oom
-- Credits URLs of this shard with what pages gave them. Called once for each number of a purse, however often it is sent.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    purse, number of the call, which grows with each call of this purse in this shard, URLs that wait in other shards,
--         credit for Lambda, then pairs: number of a URL, credit
-- reply   {} if the purse is closed, else {URLs that wait, Lambda's credit, place, worth, place, worth...}: the URLs among
--         the pairs, by their places from 0, that are now better than their levels tell
local P = KEYS[1]
local got, closed = last_received(P, ARGV[1])
if closed then return {} end
local known = ledger_of(P)
known.others = tonumber(ARGV[3])
local better = {}
if tonumber(ARGV[2]) > got then
  note_received(P, ARGV[1], ARGV[2])
  known.pool = known.pool + ARGV[4]
  for i = 5, #ARGV, 2 do
    local worth = receive_credit(P, tonumber(ARGV[i]), tonumber(ARGV[i + 1]))
    if worth then
      better[#better + 1] = (i - 5) / 2
      better[#better + 1] = worth
    end
  end
end
save_ledger(P)
return {known.waiting, known.pool, unpack(better)}
