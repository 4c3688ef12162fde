#!lua flags=no-writes
-- Returns where the records of hosts are in the store.
-- KEYS
--   P           the crawl's prefix in this shard
-- ARGV
--   #most       hosts of `waking`, if no names are given
-- list names
-- reply each
--   name
--   descriptor  of the part that may have its record; "" = it is not in the store
local rows = {}
if #names == 0 then names = redis.call('SRANDMEMBER', P .. 'waking', most) end
for i, name in ipairs(names) do
  local descriptor = cold_hosts.descriptor(P, name)
  rows[i] = {name, descriptor}
end
return rows
