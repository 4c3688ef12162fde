-- Queues known pages for the dates at which they are due, each once: not if it is queued or leased already.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   #age_ms     since the rows of the pages were read
--   #most       pages of one host
-- each url
--   host, entry
--   #wait_ms    until its date
--   #share      of its class in the pages of the host that are fetched again, from 0 to 1; 0 without TRAFFIC
-- reply         for each page: 0 queued; -1 it is queued already, or was fetched since its row was read; -2 dropped by an
--               operator; else the host has enough pages, and so many ms pass between two requests to it
local now, outcomes, added = now_ms(), {}, 0
local LOST_MS = 7 * 86400000 -- what was not settled for so long is lost
-- a host has pages for so many ms, so that its queue does not go by an old plan, but at least LEAST
local AHEAD_MS, LEAST = 600000, 4
for _, url in ipairs(redis.call('ZRANGEBYSCORE', P .. 'planned', '-inf', now - LOST_MS, 'LIMIT', 0, 100)) do
  plan.remove(P, string.match(url, '^%w+://[^/]+'), url)
end

-- Whether a host has pages enough, if so many are planned; `share` of its requests are for these pages.
local function is_enough(planned, gap, share)
  planned = planned / share
  return planned >= math.min(LEAST, most) and (planned >= most or planned * gap >= AHEAD_MS)
end

local function outcome_of(host, entry, wait_ms, share)
  local url = host .. path_of(entry)
  local visited = tonumber(redis.call('ZSCORE', P .. 'visited', url)) or 0
  if redis.call('ZSCORE', P .. 'planned', url) or visited > 0 and visited >= now - age_ms then return -1 end
  if redis.call('HEXISTS', P .. 'dropped', url) == 1 then return -2 end
  local planned = tonumber(redis.call('HGET', P .. 'planning', host)) or 0
  if planned >= math.min(LEAST, most) then
    local gap = tonumber(redis.call('HGET', turn_key(H, host), 'gap')) or 0
    -- a class has its share of the room to itself, so that the pages of others cannot keep it out
    local of_class = share > 0 and tonumber(redis.call('HGET', P .. 'planning', host .. ' ' .. classes.of(entry)) or 0)
    if is_enough(planned, gap, 1) and not (of_class and not is_enough(of_class, gap, share)) then return math.max(1, gap) end
  end
  plan.add(P, host, entry, now + wait_ms)
  added = added + redis.call('ZADD', P .. 'scheduled', now + wait_ms, delayed('-', host, dated(entry)))
  return 0
end

for i = 1, n_url do outcomes[i] = outcome_of(url_at(i)) end
if added > 0 then redis.call('HINCRBY', P .. 'n', 'scheduled', added) end
return outcomes
