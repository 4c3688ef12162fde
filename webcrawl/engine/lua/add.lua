-- Tests a batch of URLs against the seen set, and queues the new ones.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    for each host: host, n, levels by which importance has changed that of its URLs ("" = they may not be queued
--         again), who is over its budget and its penalty ("" = nobody), then n times: mark ("" = no seen test, "!..." = queue even if seen), entry
-- reply   one character for each URL, in order: "1" queued, "0" seen before or deeper than the host's limit
local P, now = KEYS[1], now_ms()
local N = P .. 'n'
local known = seen_set(P .. 'seen:', N)

local function is_new(mark)
  if mark == '' then return true end
  local anyway = string.byte(mark) == 33
  return unseen(known, anyway and string.sub(mark, 2) or mark) or anyway
end

local function too_deep(entry, deepest) return deepest and cmsgpack.unpack(string.sub(entry, 5))[2] > deepest end

local limited = redis.call('EXISTS', P .. 'limits') == 1
local verdicts, queued, i, credited = {}, 0, 1, conf_of(P).credit
while i <= #ARGV do
  local host, n, rise, over = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3]
  local fresh, deepest = {}, limited and limit_of(P, host, '^%S+ %S+ (%S+)', '')
  i = i + 4
  for j = i, i + 2 * n - 2, 2 do
    local queue = not too_deep(ARGV[j + 1], deepest) and is_new(ARGV[j])
    verdicts[#verdicts + 1] = queue and '1' or '0'
    if queue then fresh[#fresh + 1] = ARGV[j + 1] end
    if queue and credited then note_queued(P, host, ARGV[j + 1], string.find(ARGV[j], '^%-?%d') and rise) end
  end
  i = i + 2 * n
  if #fresh > 0 then
    local record = over ~= '' and record_of(P, host)
    if record and not has_urls(record) then set_over_budget(P, record, over) end
    enqueue(P, KEYS[2], host, fresh, false, now)
    queued = queued + #fresh
  end
end

if queued > 0 then
  redis.call('HINCRBY', N, 'queued', queued)
  redis.call('HINCRBY', N, 'added', queued)
end
settle_seen(known)
save_ledger(P)
return table.concat(verdicts)
