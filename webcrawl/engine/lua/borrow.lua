#!lua flags=allow-oom
-- Takes the turn of a host for one request without a lease. If a lease has the turn, its holder gets no further URLs of the
-- host, as if another crawl waited for the host. A repeated call renews the hold.
-- KEYS
--   P          the crawl's prefix in this shard
--   H          the prefix of host records
-- ARGV
--   host
--   request    the name of the request
--   hold_ms    for which the request holds the turn
-- reply
--   state      "taken" | "held" by another | "early"
--   wait_ms    until the host may be asked, if "early"
--   gap        the usual pause of the host in ms
local now = now_ms()
local BORROWER = 'borrowed' -- all borrowers count as one of the crawls that share the host
local key, borrower = turn_key(H, host), BORROWER .. ' ' .. request
local known = redis.call('HMGET', key, 'until', 'held', 'holder', 'shares', 'gap', 'delay')
local due, held = tonumber(known[1]) or 0, tonumber(known[2]) or 0
local gap = math.max(tonumber(known[5]) or 0, tonumber(known[6]) or 0)
local shares = known[4] and cmsgpack.unpack(known[4]) or {}
local state, wait_ms = 'taken', 0

if known[3] ~= borrower then
  -- the worker of an expired lease may just have sent a request
  if known[3] and held <= now then due = math.max(due, held + gap) end
  if held > now or due > now then
    sharing.ask(BORROWER, H, host, shares, now)
    state, wait_ms = held > now and 'held' or 'early', math.max(0, due - now)
    return {state, wait_ms, gap}
  end
end
shares[BORROWER] = {sharing.of(BORROWER, shares, now) + 1, 0}
redis.call('HSET', key, 'held', now + hold_ms, 'holder', borrower, 'shares', cmsgpack.pack(shares))
redis.call('PERSIST', key)
return {state, wait_ms, gap}
