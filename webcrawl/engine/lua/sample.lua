#!lua flags=allow-oom
-- Adds a sample of the crawl's figures to its history, unless the last one is recent.
-- KEYS
--   C          the crawl's own prefix
-- ARGV
--   figures    separated by spaces
--   #gap_ms    between two samples
--   #most      samples of each list
-- reply        1 if the sample was added
local now, S = now_ms(), C .. 'samples'
local at, whole, step = unpack(redis.call('HMGET', S, 'at', 'whole', 'step'))
step = tonumber(step) or gap_ms
-- a sample may be a little early, because the clocks of workers tick differently
if at and now - at < 0.8 * gap_ms then return 0 end
local sample = string.format('%.0f %s', now, figures)
redis.call('HSET', S, 'at', now)
redis.call('RPUSH', S .. ':hour', sample)
redis.call('LTRIM', S .. ':hour', -most, -1)
if not whole or now - whole >= 0.8 * step then
  if redis.call('RPUSH', S .. ':whole', sample) >= most then
    -- drops every second sample, and takes half as many from now on, so that a bounded list covers the whole crawl
    local samples = redis.call('LRANGE', S .. ':whole', 0, -1)
    redis.call('DEL', S .. ':whole')
    for i = 1, #samples, 2 do redis.call('RPUSH', S .. ':whole', samples[i]) end
    step = 2 * step
  end
  redis.call('HSET', S, 'whole', now, 'step', step)
end
return 1
