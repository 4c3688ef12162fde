#!lua flags=allow-oom
-- Makes dead letters of a part of a given-up host's queue, which was read from the store or is lost.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    letter (the element of "condemned"), "found" or "lost", entries
-- reply   1; 0 if another worker has done it
local P, now, letter = KEYS[1], now_ms(), ARGV[1]
if redis.call('LREM', P .. 'condemned', 1, letter) == 0 then return 0 end
local host, reason, descriptor, time = unpack(cmsgpack.unpack(letter))
local _, urls = part_of(descriptor)
if ARGV[2] == 'lost' then redis.call('HINCRBY', P .. 'n', 'lost_segments', 1) end
moved(P, host, {unpack(ARGV, 3)})
for i = 3, #ARGV do bury(P, host, ARGV[i], reason, time) end
redis.call('HINCRBY', P .. 'n', 'dead', -urls)
part_is_done(P, descriptor, now)
save_ledger(P)
return 1
