#!lua flags=allow-oom
-- Gives URLs of this shard the credit that pages passed on. Each number of a purse counts once, however often it is sent.
-- KEYS
--   P          the crawl's prefix in this shard
-- ARGV
--   purse
--   number     of the call, which grows with each call of this purse in this shard
--   #others    URLs that wait in other shards
--   pool       credit for Lambda
-- each url
--   #number, #credit
-- reply        empty if the purse is closed
--   waiting    URLs that wait
--   pool       Lambda's credit
--   better     position of a URL, worth, position, worth...: the URLs that are now worth a better level
local got, closed = last_received(P, purse)
if closed then return {} end
local known, better = ledger_of(P), {}
known.others = others
if tonumber(number) > got then
  note_received(P, purse, number)
  known.pool = known.pool + pool
  for i = 1, n_url do
    local worth = receive_credit(P, url_at(i))
    if worth then
      better[#better + 1] = i - 1
      better[#better + 1] = worth
    end
  end
end
save_ledger(P)
local waiting
waiting, pool = known.waiting, known.pool
return {waiting, pool, better}
