#!lua flags=allow-oom
-- Checks hosts with spent budgets again after the crawl's limits have changed.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    cursor ("0" to begin)
-- reply   the next cursor, "0" at the end
local P, now = KEYS[1], now_ms()
local found = redis.call('HSCAN', P .. 'parked', ARGV[1], 'COUNT', 500)
for i = 1, #found[2], 2 do
  if found[2][i + 1] == 'budget' then unpark(P, KEYS[2], found[2][i], now) end
end
return found[1]
