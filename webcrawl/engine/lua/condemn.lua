#!lua flags=allow-oom
-- Gives up a host: makes dead letters of its queued URLs, at most one batch in a call. URLs in the store count as dead
-- letters and stay there, except for a few that workers read and bury.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   host, reason
--   #batch
-- reply
--   buried    URLs that became dead letters
--   more      1 if URLs are left: call again
local now, record, buried, more = now_ms(), record_of(P, host), 0, 0
local listed = standing(P, record)
if not listed then return {buried, more} end

for _, level in ipairs(levels_of(P, record, batch)) do
  local queue = queue_of(host, level)
  for _, descriptor in ipairs(is_closed(P, record, level) and redis.call('LPOP', P .. 'tail:' .. queue, batch) or {}) do
    local _, urls = part_of(descriptor)
    redis.call('RPUSH', P .. 'condemned', cmsgpack.pack({host, reason, descriptor, now}))
    if redis.call('HINCRBY', P .. 'tails', queue, -urls) <= 0 then redis.call('HDEL', P .. 'tails', queue) end
    count_entries(P, record, level, -urls)
    buried = buried + urls
  end
  if not record.few and redis.call('EXISTS', P .. 'q:' .. queue, P .. 'out:' .. queue, P .. 'tail:' .. queue) == 0 then
    redis.call('SREM', P .. 'hungry', queue)
    open_level(record, level)
    drop_level(P, record, level)
  end
end
redis.call('HINCRBY', P .. 'n', 'dead', buried)

local entries = pop(P, host, batch)
for _, entry in ipairs(entries) do bury(P, host, entry, reason, now) end
buried = buried + #entries
redis.call('HINCRBY', P .. 'n', 'queued', -buried)
if is_parked(P, host) then redis.call('HINCRBY', P .. 'n', 'parked', -buried) end
leave_ready(P, record, listed)
make_ready(P, H, host, now)
save_ledger(P)
more = has_urls(record) and 1 or 0
return {buried, more}
