-- Tests a batch of URLs against the seen set, and queues the new ones.
-- KEYS
--   P        the crawl's prefix in this shard
--   H        the prefix of host records
-- ARGV
--   batch    name of this call, if one of its URLs has no seen test or is queued even if it was seen; "" = nothing else
--            could be queued twice. The reply to a call of that name is kept for REMEMBERED seconds, and a repeat gets it
-- each host
--   host
--   #urls    number of its URLs; the URLs come in the order of the hosts
--   #rise    levels by which importance has changed the level of its URLs; "" = the URLs may not be queued again
--   over     owner whose budget is spent, and the penalty; "" = nobody
-- each url
--   mark     "" = no seen test, "!..." = queue the URL even if it was seen; "?...", a space and an answer for the seen set
--   entry
-- reply
--   verdicts  one character for each URL, in order: "1" queued, "0" seen before, "d" deeper than the host's limit, "?" to be
--            added again with an answer, because the URL may be in the part of the seen set that is in the store
--   parts    for each "?", in order, the descriptor of that part
local REMEMBERED = 600
local memory = batch ~= '' and P .. 'batch:' .. batch
local before = memory and redis.call('GET', memory)
if before then return cmsgpack.unpack(before) end
local now, N = now_ms(), P .. 'n'
local known = seen_set(P .. 'seen:', N)

-- Returns whether a URL is queued, and whether it is queued although it was seen; or nil and a part of the store.
local function is_new(mark)
  if mark == '' then return true end
  local first, answer = string.byte(mark), nil
  if first == 63 then
    mark, answer = string.match(mark, '^%?(%S+) (.*)$')
    first = string.byte(mark)
  end
  local anyway = first == 33
  local is_unseen, part = unseen(known, anyway and string.sub(mark, 2) or mark, answer)
  if part then return nil, part end
  return is_unseen or anyway, anyway and not is_unseen
end

local function too_deep(entry, deepest) return deepest and cmsgpack.unpack(string.sub(entry, 5))[2] > deepest end

local limited = redis.call('EXISTS', P .. 'limits') == 1
local verdicts, parts, last, credited = {}, {}, 0, conf_of(P).credit
local hosts, owners_over, entries = {}, {}, {} -- of hosts with new URLs
for i = 1, n_host do
  local host, urls, rise, over = host_at(i)
  local fresh, deepest = {}, limited and limit_of(P, host, '^%S+ %S+ (%S+)', '')
  for j = last + 1, last + urls do
    local mark, entry = url_at(j)
    local queue, again, deep = false, nil, too_deep(entry, deepest)
    if not deep then queue, again = is_new(mark) end
    verdicts[j] = deep and 'd' or queue and '1' or queue == nil and '?' or '0'
    if queue == nil then parts[#parts + 1] = again
    elseif again and classes.of(entry) == 0 then entry = classes.changed(entry, classes.UPDATE_CHK) end
    if queue then fresh[#fresh + 1] = entry end
    if queue and credited then note_queued(P, host, entry, string.find(mark, '^%??%-?%d') and rise) end
  end
  last = last + urls
  if #fresh > 0 then
    local n = #hosts + 1
    hosts[n], owners_over[n], entries[n] = host, over, fresh
  end
end

local queued = 0
together.begin(P, hosts)
for n, host in ipairs(hosts) do
  local record = owners_over[n] ~= '' and record_of(P, host)
  if record and not has_urls(record) then set_over_budget(P, record, owners_over[n]) end
  enqueue(P, H, host, entries[n], false, now)
  queued = queued + #entries[n]
end
together.write(P)
if queued > 0 then
  redis.call('HINCRBY', N, 'queued', queued)
  redis.call('HINCRBY', N, 'added', queued)
end
settle_seen(known)
save_ledger(P)
verdicts = table.concat(verdicts)
if memory then redis.call('SET', memory, cmsgpack.pack({verdicts, parts}), 'EX', REMEMBERED) end
return {verdicts, parts}
