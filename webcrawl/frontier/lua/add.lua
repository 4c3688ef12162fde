-- Seen test and enqueue of one batch of URLs, in one step.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    per host: host, n, then n times: fingerprint ("" = no seen test, "!..." = queued though seen), entry
-- reply   one character a URL, in order: "1" queued, "0" known
local P, now = KEYS[1], now_ms()
local N = P .. 'n'
local state = redis.call('HMGET', N, 'bits', 'split', 'seen')
local bits, split, seen = tonumber(state[1]) or 0, tonumber(state[2]) or 0, tonumber(state[3]) or 0

local function unseen(mark)
  local anyway = string.byte(mark) == 33
  local fingerprint = anyway and string.sub(mark, 2) or mark
  local value = bucket_value(fingerprint)
  local bucket = value % 2 ^ (bits + 1)
  if bucket >= 2 ^ bits + split then bucket = value % 2 ^ bits end
  local fresh = redis.call('SADD', P .. 'seen:' .. bucket, fingerprint) == 1
  if fresh then seen = seen + 1 end
  return fresh or anyway
end

local verdicts, queued, first, i = {}, 0, seen, 1
while i <= #ARGV do
  local host, n = ARGV[i], tonumber(ARGV[i + 1])
  local fresh = {}
  i = i + 2
  for j = i, i + 2 * n - 2, 2 do
    local is_new = ARGV[j] == '' or unseen(ARGV[j])
    verdicts[#verdicts + 1] = is_new and '1' or '0'
    if is_new then fresh[#fresh + 1] = ARGV[j + 1] end
  end
  i = i + 2 * n
  if #fresh > 0 then
    push(P, host, fresh, false)
    make_ready(P, KEYS[2], host, now)
    queued = queued + #fresh
  end
end

while seen > BUCKET_LOAD * (2 ^ bits + split) do
  split_bucket(P, bits, split)
  split = split + 1
  if split == 2 ^ bits then bits, split = bits + 1, 0 end
end

if queued > 0 then
  redis.call('HINCRBY', N, 'queued', queued)
  redis.call('HINCRBY', N, 'added', queued)
end
if seen > first then redis.call('HSET', N, 'bits', bits, 'split', split, 'seen', seen) end
return table.concat(verdicts)
