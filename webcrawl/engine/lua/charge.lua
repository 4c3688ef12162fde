#!lua flags=allow-oom
-- Adds to the costs of hosts and registered domains. Only the costliest are kept.
-- KEYS[1] the crawl's own prefix
-- ARGV    worker, the batch's number, how many names are kept, then for each name: name, weight, microseconds of
--         processor, bytes, questions, waits. A batch whose reply was lost is repeated: it counts once for each number.
-- reply   number of names kept
local C, most = KEYS[1], tonumber(ARGV[3])
local CHARGED_MS = 86400000
local charged = C .. 'charged:' .. ARGV[1]
if tonumber(ARGV[2]) > (tonumber(redis.call('GET', charged)) or 0) then
  redis.call('SET', charged, ARGV[2], 'PX', CHARGED_MS)
  for i = 4, #ARGV, 6 do
    local figures = {}
    local known = string.gmatch(redis.call('HGET', C .. 'costs', ARGV[i]) or '', '%d+')
    for j = 2, 5 do figures[#figures + 1] = string.format('%.0f', (known() or 0) + ARGV[i + j]) end
    redis.call('HSET', C .. 'costs', ARGV[i], table.concat(figures, ' '))
    redis.call('ZINCRBY', C .. 'costliest', ARGV[i + 1], ARGV[i])
  end
  local over = redis.call('ZCARD', C .. 'costliest') - most
  if over > 0 then
    local cheapest = redis.call('ZPOPMIN', C .. 'costliest', over)
    for i = 1, #cheapest, 2 do redis.call('HDEL', C .. 'costs', cheapest[i]) end
  end
end
return redis.call('ZCARD', C .. 'costliest')
