#!lua flags=allow-oom
-- Makes a process the only watcher of a crawl for some time, and stores its notes.
-- KEYS
--   C          the crawl's own prefix
-- ARGV
--   process
--   #ms        for which it stays the watcher; 0 = it leaves
--   notes      events that it has seen; "" = the stored notes stay
-- reply        nothing changes while another process is the watcher
--   watches    1 if the process is the watcher
--   stored     the stored notes; "" for another process
local watches, stored = 0, ''
if (redis.call('GET', C .. 'watcher') or process) ~= process then return {watches, stored} end
if ms > 0 then redis.call('SET', C .. 'watcher', process, 'PX', ms) else redis.call('DEL', C .. 'watcher') end
if notes ~= '' then redis.call('SET', C .. 'watched', notes) end
watches, stored = 1, redis.call('GET', C .. 'watched') or ''
return {watches, stored}
