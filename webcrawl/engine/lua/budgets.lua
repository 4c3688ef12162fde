#!lua flags=allow-oom
-- Adds to what names and registered domains have spent, and to the domains that link to them.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    most domains that are counted; for each owner of a budget: owner, what it spent, hashes of domains that link to it (4 bytes each)
-- reply   {spent, linking domains} for each
local P, most = KEYS[1], tonumber(ARGV[1])
local reply = {}

local function joined(known, more)
  local seen, parts = {}, {known}
  for i = 1, #known, 4 do seen[string.sub(known, i, i + 3)] = true end
  local n = #known / 4
  for i = 1, #more, 4 do
    local one = string.sub(more, i, i + 3)
    if not seen[one] and n < most then seen[one], parts[#parts + 1], n = true, one, n + 1 end
  end
  return table.concat(parts)
end

for i = 2, #ARGV, 3 do
  local owner, stored = ARGV[i], redis.call('HGET', P .. 'budgets', ARGV[i])
  local spent, domains = 0, ''
  if stored then spent, domains = struct.unpack('<I4', stored), string.sub(stored, 5) end
  spent, domains = math.min(spent + ARGV[i + 1], 4294967295), joined(domains, ARGV[i + 2])
  local now = struct.pack('<I4', spent) .. domains
  if now ~= stored and (spent > 0 or domains ~= '') then redis.call('HSET', P .. 'budgets', owner, now) end
  reply[#reply + 1] = {spent, #domains / 4}
end
return reply
