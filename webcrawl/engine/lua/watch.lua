#!lua flags=allow-oom
-- Makes a process the only holder of a lock of a crawl for some time, and stores its notes.
-- KEYS
--   lock
--   kept       the notes
-- ARGV
--   process
--   #ms        for which it stays the holder; 0 = it leaves
--   notes      what the next holder gets; "" = the stored notes stay
-- reply        nothing changes while another process is the holder
--   watches    1 if the process is the holder
--   stored     the stored notes; "" for another process
local watches, stored = 0, ''
if (redis.call('GET', lock) or process) ~= process then return {watches, stored} end
if ms > 0 then redis.call('SET', lock, process, 'PX', ms) else redis.call('DEL', lock) end
if notes ~= '' then redis.call('SET', kept, notes) end
watches, stored = 1, redis.call('GET', kept) or ''
return {watches, stored}
