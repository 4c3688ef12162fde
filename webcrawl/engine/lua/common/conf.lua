-- The configuration of the crawl.

-- Returns the configuration of the crawl. Long queues are spilled, see keys.py: a hot list is closed when it has more than
-- `full` entries and refilled at `low`; between `part` and twice as many entries are moved or written at once. `credit` is
-- the shard's share of the credit at the start; nil if importance is off. `split`: classes have queues of their own.
local known_conf
local function conf_of(P)
  if not known_conf then
    local raw = redis.call('HMGET', P .. 'conf', 'hot', 'order', 'credit', 'traffic')
    local hot = tonumber(raw[1]) or 0
    local quarter = hot > 0 and math.floor(hot / 4) or 250
    known_conf = {
      full = hot > 0 and 3 * quarter or math.huge, low = quarter, part = math.min(quarter, 500),
      newest_first = raw[2] == 'depth-first', shuffled = raw[2] == 'random', credit = tonumber(raw[3]),
      split = raw[4] ~= false,
    }
    -- without a seed, the random numbers of a script are the same in each run
    if known_conf.shuffled then
      local t = redis.call('TIME')
      math.randomseed((t[1] % 1000) * 1000000 + t[2])
    end
  end
  return known_conf
end
