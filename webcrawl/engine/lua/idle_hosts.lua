#!lua flags=allow-oom
-- Returns hosts and owners of budgets that have nothing to do, with what is known of them.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   fact        hash to read, one of cold_hosts.FACTS
--   cursor      "0" at first, then that of the last reply
-- reply
--   next_cursor  "0" at the end
--   names
--   facts       of each name, packed
local part, names = redis.call('HSCAN', P .. fact, cursor, 'COUNT', 500), {}
for i = 1, math.min(#part[2], 2000), 2 do
  if cold_hosts.is_idle(P, H, part[2][i]) then names[#names + 1] = part[2][i] end
end
local next_cursor, facts = part[1], cold_hosts.pack(P, names)
return {next_cursor, names, facts}
