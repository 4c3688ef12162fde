#!lua flags=allow-oom
-- Makes a process the only watcher of a crawl for some time, and stores what it has seen.
-- KEYS
--   C          the crawl's own prefix
-- ARGV
--   process
--   #ms        0 = it leaves
--   notes      what it has seen; "" leaves what is stored
-- reply        nothing changes while another process is the watcher
--   watches    1 if it is the watcher
--   stored     what is stored
local watches, stored = 0, ''
if (redis.call('GET', C .. 'watcher') or process) ~= process then return {watches, stored} end
if ms > 0 then redis.call('SET', C .. 'watcher', process, 'PX', ms) else redis.call('DEL', C .. 'watcher') end
if notes ~= '' then redis.call('SET', C .. 'watched', notes) end
watches, stored = 1, redis.call('GET', C .. 'watched') or ''
return {watches, stored}
