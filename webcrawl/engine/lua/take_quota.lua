-- Takes URLs from the quota of a token, a bucket that is filled at a rate (Turner 1986), or gives some back. A token that asks
-- with another rate has what it had left.
-- KEYS
--   Q          of the token
-- ARGV
--   #wanted    URLs; below 0 gives them back
--   #per_ms    URLs
--   #most      URLs that can be taken at once
-- reply
--   taken      1, or 0 if there are too few
--   left       URLs, as text because it has decimals
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local known = redis.call('HMGET', Q, 'left', 'at')
local left, at = tonumber(known[1]) or most, tonumber(known[2]) or now
left = math.min(most, left + math.max(0, now - at) * per_ms)
local taken = wanted <= left and 1 or 0
if taken == 1 then left = math.min(most, left - wanted) end
left = string.format('%.6f', left)
redis.call('HSET', Q, 'left', left, 'at', string.format('%.0f', now))
redis.call('PEXPIRE', Q, math.ceil(most / per_ms))
return {taken, left}
