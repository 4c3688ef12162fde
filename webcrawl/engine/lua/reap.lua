#!lua flags=allow-oom
-- Takes back expired leases, or all leases if the workers are known to be dead.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    "expired" | "all", blames after which a URL becomes a dead letter, URLs of one host that a worker may fetch at
--         once, most hosts, delay ms before the next request (the dead worker may just have sent one), ms that the
--         response may take
-- reply   {hosts taken back, URLs that became dead letters}
local P, H, now = KEYS[1], KEYS[2], now_ms()
local limit, started = tonumber(ARGV[2]), tonumber(ARGV[3])
local last = ARGV[1] == 'all' and '+inf' or now
local buried, QUIET = 0, 3600000
local hosts = redis.call('ZRANGEBYSCORE', P .. 'leases', '-inf', last, 'LIMIT', 0, ARGV[4])
for _, host in ipairs(hosts) do
  local ours = holds(P, H, host, redis.call('HGET', P .. 'lease:' .. host, 'token'))
  -- only URLs that may have been in flight when the worker died can have caused it
  give_back(P, host, function(entry, place)
    local again = counted(entry, 0, 1, place <= started and 1 or 0)
    local blames = string.byte(again, 4)
    if place > started or blames < limit then return again end
    bury(P, host, entry, 'its worker died ' .. blames .. ' times', now)
    buried = buried + 1
    return nil
  end)
  if ours then
    local record = redis.call('HMGET', turn_key(H, host), 'delay', 'gap')
    local gap = math.max(tonumber(ARGV[5]), tonumber(record[1]) or 0, tonumber(record[2]) or 0)
    let_go(H, host, now, gap + tonumber(ARGV[6]), QUIET)
  end
  wake_behind(P, H, host, now)
  make_ready(P, H, host, now)
end
redis.call('HINCRBY', P .. 'n', 'reaped', #hosts)
save_ledger(P)
return {#hosts, buried}
