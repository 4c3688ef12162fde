#!lua flags=allow-oom
-- Checks hosts with spent budgets again, after the crawl's limits have changed.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   cursor    "0" to begin
-- reply       the next cursor, "0" at the end
local now = now_ms()
local after, fields = unpack(redis.call('HSCAN', P .. 'parked', cursor, 'COUNT', 500))
for i = 1, #fields, 2 do
  if fields[i + 1] == 'budget' then unpark(P, H, fields[i], now) end
end
return after
