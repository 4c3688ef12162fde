#!lua flags=allow-oom
-- Takes back expired leases, or all leases if the workers are known to be dead.
-- KEYS
--   P               the crawl's prefix in this shard
--   H               the prefix of host records
-- ARGV
--   which           "expired" | "all"
--   #most_blames    blames at which a URL becomes a dead letter
--   #started        URLs of one host that a worker may fetch at once
--   most            hosts in one call
--   #delay_ms       before the next request, because the dead worker may just have sent one
--   #answer_ms      that the response may take
-- reply
--   taken           hosts
--   buried          URLs that became dead letters
local now, buried, QUIET = now_ms(), 0, 3600000
local last = which == 'all' and '+inf' or now
local hosts = redis.call('ZRANGEBYSCORE', P .. 'leases', '-inf', last, 'LIMIT', 0, most)
for _, host in ipairs(hosts) do
  local ours = holds(P, H, host, redis.call('HGET', P .. 'lease:' .. host, 'token'))
  -- only URLs that may have been in flight when the worker died can have caused its death
  give_back(P, host, function(entry, i)
    local again = counted(entry, 0, 1, i <= started and 1 or 0)
    local blames = string.byte(again, 4)
    if i > started or blames < most_blames then return again end
    bury(P, host, entry, 'its worker died ' .. blames .. ' times', now)
    buried = buried + 1
    return nil
  end)
  if ours then
    local record = redis.call('HMGET', turn_key(H, host), 'delay', 'gap')
    local gap = math.max(delay_ms, tonumber(record[1]) or 0, tonumber(record[2]) or 0)
    let_go(H, host, now, gap + answer_ms, QUIET)
  end
  wake_behind(P, H, host, now)
  make_ready(P, H, host, now)
end
redis.call('HINCRBY', P .. 'n', 'reaped', #hosts)
save_ledger(P)
local taken = #hosts
return {taken, buried}
