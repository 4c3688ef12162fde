#!lua flags=allow-oom
-- Adds to what names and registered domains have spent (webcrawl.policies.budgets), and to the domains with links to them.
-- KEYS
--   P          the crawl's prefix in this shard
-- ARGV
--   #most      domains counted for each owner
-- each budget
--   owner
--   #spent     units that it spent
--   domains    hashes of domains that link to it, 4 bytes each
-- reply each
--   spent, domains
local now, totals = now_ms(), {}

-- together, because a command costs more than what it reads
for from = 1, n_budget, 1000 do
  local owners, changed = {}, {}
  for i = from, math.min(from + 999, n_budget) do owners[#owners + 1] = (budget_at(i)) end
  local stored_budgets = redis.call('HMGET', P .. 'budgets', unpack(owners))
  for n, stored in ipairs(stored_budgets) do
    local owner, spent, domains = budget_at(from + n - 1)
    local had, known = 0, ''
    if spent > 0 or domains ~= '' then
      cold_hosts.note_charge(P, owner, now)
      -- until its record is here again, the owner seems to have spent less
      if not stored then cold_hosts.wake(P, owner) end
    end
    if stored then had, known = struct.unpack('<I4', stored), string.sub(stored, 5) end
    spent, domains = math.min(had + spent, 4294967295), join_domains(known, domains, most)
    local budget = struct.pack('<I4', spent) .. domains
    if budget ~= stored and (spent > 0 or domains ~= '') then
      changed[#changed + 1] = owner
      changed[#changed + 1] = budget
    end
    domains = #domains / 4
    totals[from + n - 1] = {spent, domains}
  end
  if #changed > 0 then redis.call('HSET', P .. 'budgets', unpack(changed)) end
end
return totals
