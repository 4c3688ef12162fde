-- Entries that were leased, delayed or given up.

-- Adds to an entry's counters: attempts, returns, blames.
local function counted(entry, attempts, returns, blames)
  local a, r, b = string.byte(entry, 2, 4)
  return string.sub(entry, 1, 1)
    .. string.char(math.min(a + attempts, 255), math.min(r + returns, 255), math.min(b + blames, 255))
    .. string.sub(entry, 5)
end

-- Sets an entry's counters to zero, as if its URL had not been fetched, but its wait is not observed again.
local function with_counters_reset(entry)
  entry = unobserved(entry)
  return string.sub(entry, 1, 1) .. string.char(0, 0, 0) .. string.sub(entry, 5)
end

-- Marks an entry as dated, and removes its time, because dated entries of one URL must be equal.
local function dated(entry)
  entry = without_time(entry)
  return string.char(string.byte(entry, 1) % DATED + DATED) .. string.sub(entry, 2)
end

-- Makes a dead letter, whose credit goes to Lambda. Requests of one URL with other methods or bodies have their own letters.
local function bury(P, host, entry, reason, now)
  local field = host .. path_of(entry)
  if conf_of(P).credit then giver.to_lambda(P, field) end
  plan.settle(P, host, entry, now)
  local known = redis.call('HGET', P .. 'dead', field)
  local letters = known and cmsgpack.unpack(known) or {}
  letters[#letters + 1] = {reason, now - ms_ahead(), entry}
  redis.call('HSET', P .. 'dead', field, cmsgpack.pack(letters))
  redis.call('HINCRBY', P .. 'n', 'dead', 1)
end

-- Returns a member of the sorted sets `later` and `scheduled`. `serial` distinguishes equal entries.
local function delayed(serial, host, entry) return serial .. ' ' .. host .. '\n' .. entry end

-- Queues due entries of one of these sets again, at most a thousand in a call.
local function wake(P, H, set, now)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. set, '-inf', now, 'LIMIT', 0, 1000)) do
    local cut = string.find(member, '\n', 1, true)
    local host = string.sub(member, string.find(member, ' ', 1, true) + 1, cut - 1)
    local entries = {string.sub(member, cut + 1)}
    redis.call('ZREM', P .. set, member)
    redis.call('HINCRBY', P .. 'n', set, -1)
    redis.call('HINCRBY', P .. 'n', 'queued', 1)
    moved(P, host, entries)
    enqueue(P, H, host, entries, false, now)
  end
end

-- Returns entries of a lease, {{index, entry}...}, in the order in which `push` returns them to the head of their queue.
local function in_old_order(held)
  local entries = {}
  table.sort(held, function(a, b) return a[1] > b[1] end)
  for i, pair in ipairs(held) do entries[i] = pair[2] end
  return entries
end

-- Ends a lease: its remaining entries return to the head of the queue in their old order.
-- `amend(entry, i)` may change the i-th entry of the queue, or return nil to drop it.
local function give_back(P, host, amend)
  local key, held = P .. 'lease:' .. host, {}
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local index = tonumber(fields[i])
    if index then held[#held + 1] = {index, fields[i + 1]} end
  end
  local entries, had = {}, in_old_order(held)
  for i, entry in ipairs(had) do
    if amend then entry = amend(entry, #held - i + 1) end
    if entry then entries[#entries + 1] = entry end
  end
  redis.call('DEL', key)
  redis.call('ZREM', P .. 'leases', host)
  redis.call('SREM', P .. 'lowest', host)
  redis.call('SREM', P .. 'strays', host)
  moved(P, host, had)
  if #entries > 0 then push(P, host, entries, true) end
  redis.call('HINCRBY', P .. 'n', 'leased', -#held)
  redis.call('HINCRBY', P .. 'n', 'queued', #entries)
end
