#!lua flags=allow-oom
-- Adds to the costs of hosts and registered domains, and keeps only the costliest. A batch whose reply was lost is
-- repeated, so each number counts once.
-- KEYS
--   C          the crawl's own prefix
-- ARGV
--   worker
--   number     of the batch
--   #most      names that are kept
-- each cost
--   name, weight
--   cpu        microseconds of processor time
--   bytes, questions, waits
-- reply        number of names kept
local CHARGED_MS = 86400000
local charged = C .. 'charged:' .. worker
if tonumber(number) > (tonumber(redis.call('GET', charged)) or 0) then
  redis.call('SET', charged, number, 'PX', CHARGED_MS)
  for i = 1, n_cost do
    local name, weight, cpu, bytes, questions, waits = cost_at(i)
    local known, sums = string.gmatch(redis.call('HGET', C .. 'costs', name) or '', '%d+'), {}
    for j, figure in ipairs({cpu, bytes, questions, waits}) do sums[j] = string.format('%.0f', (known() or 0) + figure) end
    redis.call('HSET', C .. 'costs', name, table.concat(sums, ' '))
    redis.call('ZINCRBY', C .. 'costliest', weight, name)
  end
  local over = redis.call('ZCARD', C .. 'costliest') - most
  if over > 0 then
    local cheapest = redis.call('ZPOPMIN', C .. 'costliest', over)
    for i = 1, #cheapest, 2 do redis.call('HDEL', C .. 'costs', cheapest[i]) end
  end
end
return redis.call('ZCARD', C .. 'costliest')
