#!lua flags=allow-oom
-- Makes dead letters of a part of a given-up host's queue, which was read from the store or is lost.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   letter    the element of "condemned"
--   state     "found" | "lost"
-- list entries
-- reply       1; 0 if another worker has done it
local now = now_ms()
if redis.call('LREM', P .. 'condemned', 1, letter) == 0 then return 0 end
local host, reason, descriptor, time = unpack(cmsgpack.unpack(letter))
local _, urls = part_of(descriptor)
if state == 'lost' then redis.call('HINCRBY', P .. 'n', 'lost_segments', 1) end
moved(P, host, entries)
for _, entry in ipairs(entries) do bury(P, host, entry, reason, time) end
redis.call('HINCRBY', P .. 'n', 'dead', -urls)
part_is_done(P, descriptor, now)
save_ledger(P)
return 1
