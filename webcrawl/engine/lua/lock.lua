#!lua flags=allow-oom
-- Makes a process the only holder of a lock for some time, and stores its notes.
-- KEYS
--   keys...    the lock, and its notes if it has some
-- ARGV
--   owner      the process
--   #ms        for which it stays the holder; 0 = it leaves
--   notes      what the next holder gets; "" = the stored notes stay
-- reply        nothing changes while another process is the holder
--   holder     who has the lock, or had it until now
--   stored     the stored notes; "" for another process
local lock, kept = keys[1], keys[2]
local holder, stored = redis.call('GET', lock) or owner, ''
if holder ~= owner then return {holder, stored} end
if ms > 0 then redis.call('SET', lock, owner, 'PX', ms) else redis.call('DEL', lock) end
if kept and notes ~= '' then redis.call('SET', kept, notes) end
if kept then stored = redis.call('GET', kept) or '' end
return {holder, stored}
