#!lua flags=allow-oom
-- Reserves connections to an address, and a window of time in which one worker may start requests to it. All crawls share
-- the windows, which follow each other with the delay in between. No worker shortens the window of another, and a repeated
-- call only reserves a later window.
-- KEYS
--   key            the record of the address, see keys.py
-- ARGV
--   worker
--   #delay_ms
--   #length_ms     of the window; -1 = no window is wanted
--   #at_once_ms    its length if it begins at once
--   last           end of the worker's last window; "" = no last window
--   idle_ms        since its last request in that window
--   #limit         connections over all workers; 0 = any number
--   connections    wanted if the window has begun
--   #in_use        connections in use
--   #held_ms       for which connections are held
-- reply
--   wait_ms        until the window begins
--   length_ms
--   ends           when the window ends, as text
--   held           connections that the worker holds now
local now, KEPT_MS = now_ms(), 60000 -- for which a record is kept after it stops delaying requests
local wait_ms, ends, held, wanted = 0, '', 0, connections

if length_ms >= 0 then
  local ended = tonumber(redis.call('HGET', key, 'ended')) or 0
  -- the worker does not need the rest of its last window, if no other window was reserved since
  if last ~= '' and ended == tonumber(last) then ended = math.min(ended, now + 1 - idle_ms) end
  local begins = math.max(now, ended + delay_ms)
  if begins == now then length_ms = at_once_ms else wanted = in_use end
  -- times are whole ms, and the worker may send its last request at the end of the last ms
  wait_ms, ends = begins - now, string.format('%.0f', begins + length_ms + 1)
  redis.call('HSET', key, 'ended', ends)
else
  length_ms = 0
end

if limit > 0 then
  local others = 0
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local other = string.match(fields[i], '^held (.+)$')
    if other and other ~= worker then
      local reserved, expiry = string.match(fields[i + 1], '^(%d+) (%d+)$')
      if tonumber(expiry) > now then others = others + reserved else redis.call('HDEL', key, fields[i]) end
    end
  end
  -- connections in use cannot be taken back
  held = math.max(in_use, math.min(tonumber(wanted), limit - others))
  if held > 0 then redis.call('HSET', key, 'held ' .. worker, string.format('%d %.0f', held, now + held_ms))
  else redis.call('HDEL', key, 'held ' .. worker) end
end

redis.call('PEXPIRE', key, math.max(wait_ms + length_ms + delay_ms, held_ms) + KEPT_MS)
return {wait_ms, length_ms, ends, held}
