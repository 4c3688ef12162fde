#!lua flags=allow-oom
-- Forgets what hosts without URLs have spent. Otherwise a crawl without end would keep a field for each host that it met.
-- KEYS
--   P           the crawl's prefix in this shard
-- ARGV
--   cursor      "0" at first, then that of the last reply
-- reply
--   next_cursor  "0" at the end
--   forgotten    number of hosts
local part = redis.call('HSCAN', P .. 'spent', cursor, 'COUNT', 500)
local idle = {}
for i = 1, #part[2], 2 do
  local host = part[2][i]
  if not has_urls(record_of(P, host)) and redis.call('EXISTS', P .. 'lease:' .. host) == 0 then idle[#idle + 1] = host end
end
for _, name in ipairs(#idle > 0 and {'spent', 'errors', 'patterns', 'dust', 'unknown'} or {}) do
  redis.call('HDEL', P .. name, unpack(idle))
end
local next_cursor, forgotten = part[1], #idle
return {next_cursor, forgotten}
