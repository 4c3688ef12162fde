-- Adds a part of a checkpoint to a crawl without workers.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    kind, then for each kind (times in ms by the server's clock):
--         "tail" | "head"          host, n, n entries to add to the end or the head of the queue
--         "later" | "scheduled"    time, member
--         "dead"                   URL, how many, its letters
--         "dropped"                URL, ms
--         "bury"                   host, reason, n, n entries
--         "seen"                   marks
--         "credit"                 record of a URL: field, value
--         "limits" | "spent" | "parked" | "patterns" | "unknown" | "dust" | "dust_off" | "over" | "budgets"
--                                  host or owner of a budget, value
--         "host"                   host or name, n, n fields and values of its record; an existing record is kept
-- reply   1
local P, H, now, what = KEYS[1], KEYS[2], now_ms(), ARGV[1]
local N = P .. 'n'
local put = {}

local function queues()
  local i, head = 2, what == 'head'
  while i <= #ARGV do
    local host, n, entries = ARGV[i], tonumber(ARGV[i + 1]), {}
    for j = 1, n do entries[head and n - j + 1 or j] = ARGV[i + 1 + j] end
    if n > 0 then enqueue(P, H, host, entries, head, now) end
    for j = 1, conf_of(P).credit and n or 0 do note_restored(P, host, entries[j]) end
    redis.call('HINCRBY', N, 'queued', n)
    i = i + 2 + n
  end
end
put.tail, put.head = queues, queues

-- a scan may return a member twice
local function waiting()
  local serial = tonumber(redis.call('HGET', N, 'serial')) or 0
  for i = 2, #ARGV, 2 do
    redis.call('HINCRBY', N, what, redis.call('ZADD', P .. what, ARGV[i] + ms_ahead(), ARGV[i + 1]))
    serial = math.max(serial, tonumber(string.match(ARGV[i + 1], '^%d+')) or 0)
  end
  redis.call('HSET', N, 'serial', string.format('%.0f', serial))
end
put.later, put.scheduled = waiting, waiting

function put.dead()
  for i = 2, #ARGV, 3 do
    local known = redis.call('HGET', P .. 'dead', ARGV[i])
    redis.call('HSET', P .. 'dead', ARGV[i], ARGV[i + 2])
    redis.call('HINCRBY', N, 'dead', ARGV[i + 1] - (known and #cmsgpack.unpack(known) or 0))
  end
end

function put.dropped()
  for i = 2, #ARGV, 2 do
    redis.call('HINCRBY', N, 'dropped', redis.call('HSET', P .. 'dropped', ARGV[i], ARGV[i + 1]))
  end
end

function put.bury()
  local i = 2
  while i <= #ARGV do
    local n = tonumber(ARGV[i + 2])
    for j = i + 3, i + 2 + n do bury(P, ARGV[i], ARGV[j], ARGV[i + 1], now) end
    i = i + 3 + n
  end
end

function put.seen()
  local known = seen_set(P .. 'seen:', N)
  for i = 2, #ARGV do unseen(known, ARGV[i]) end
  settle_seen(known)
end

-- what waits in a record comes from the pool, so the sum does not change
function put.credit()
  for i = 2, conf_of(P).credit and #ARGV or 0, 2 do put_page(P, tonumber(ARGV[i]) + 2147483648, ARGV[i + 1]) end
end

local function of_hosts()
  redis.call('HSET', P .. what, unpack(ARGV, 2))
end
for _, name in ipairs({'limits', 'spent', 'parked', 'patterns', 'unknown', 'dust', 'dust_off', 'budgets'}) do
  put[name] = of_hosts
end

function put.over()
  for i = 2, #ARGV, 2 do set_over_budget(P, record_of(P, ARGV[i]), ARGV[i + 1] .. ' 1') end
end

function put.host()
  local i = 2
  while i <= #ARGV do
    local key, n = turn_key(H, ARGV[i]), tonumber(ARGV[i + 1])
    if redis.call('EXISTS', key) == 0 then
      local forgotten
      for j = i + 2, i + n, 2 do
        local time = string.match(ARGV[j], '^%a+')
        redis.call('HSET', key, ARGV[j], ARGV[j + 1])
        if time == 'until' or time == 'forgiven' then
          redis.call('HINCRBY', key, ARGV[j], ms_ahead())
          if time == 'forgiven' then forgotten = math.max(forgotten or 0, redis.call('HGET', key, ARGV[j])) end
        end
      end
      forget_at(H, ARGV[i], forgotten or now + 3600000)
    end
    i = i + 2 + n
  end
end

put[what]()
save_ledger(P)
return 1
