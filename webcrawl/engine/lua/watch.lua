#!lua flags=allow-oom
-- Makes a process the only watcher of a crawl for some time, and stores what it has seen.
-- KEYS[1] the crawl's own prefix
-- ARGV    process, ms (0 = it leaves), what it has seen ("" leaves what is stored)
-- reply   {1 if it is the watcher, what is stored}; nothing changes while another process is the watcher
local C, ms = KEYS[1], tonumber(ARGV[2])
if (redis.call('GET', C .. 'watcher') or ARGV[1]) ~= ARGV[1] then return {0, ''} end
if ms > 0 then redis.call('SET', C .. 'watcher', ARGV[1], 'PX', ms) else redis.call('DEL', C .. 'watcher') end
if ARGV[3] ~= '' then redis.call('SET', C .. 'watched', ARGV[3]) end
return {1, redis.call('GET', C .. 'watched') or ''}
