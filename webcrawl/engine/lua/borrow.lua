#!lua flags=allow-oom
-- Takes the turn of a host for one request without a lease, unless a lease has it. Then the holder gets no further URLs of
-- the host, as if another crawl waited for it. A repeated call has the same effect.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, name of the request, ms for which the turn is held
-- reply   {"taken" | "held" by another | "early", ms until the host may be asked if it is early, ms of pause that the host
--         usually gets}
local P, H, now = KEYS[1], KEYS[2], now_ms()
local BORROWER = 'borrowed' -- takes the place of a crawl among those that share the host
local host, key, holder = ARGV[1], turn_key(H, ARGV[1]), BORROWER .. ' ' .. ARGV[2]
local known = redis.call('HMGET', key, 'until', 'held', 'holder', 'shares', 'gap', 'delay')
local due, held = tonumber(known[1]) or 0, tonumber(known[2]) or 0
local gap = math.max(tonumber(known[5]) or 0, tonumber(known[6]) or 0)
local shares = known[4] and cmsgpack.unpack(known[4]) or {}

if known[3] ~= holder then
  -- a lease that has expired: its worker may just have asked
  if known[3] and held <= now then due = math.max(due, held + gap) end
  if held > now or due > now then
    ask_for_share(BORROWER, H, host, shares, now)
    return {held > now and 'held' or 'early', math.max(0, due - now), gap}
  end
end
shares[BORROWER] = {share_of(BORROWER, shares, now) + 1, 0}
redis.call('HSET', key, 'held', now + ARGV[3], 'holder', holder, 'shares', cmsgpack.pack(shares))
redis.call('PERSIST', key)
return {'taken', 0, gap}
