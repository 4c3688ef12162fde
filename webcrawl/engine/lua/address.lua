#!lua flags=allow-oom
-- Reserves a window of time in which one worker may start requests to an address, and connections to it, both over all
-- crawls. Windows follow each other with the delay in between. A reservation is never shortened by another worker, and
-- a repeated call only reserves a later window.
-- KEYS[1] the record of the address, see keys.py
-- ARGV    worker, delay ms, length ms of the window (-1 = none is wanted), its length ms if it begins at once,
--         end of the worker's last window ("" = it has none), ms since its last request in it,
--         connections over all workers (0 = any number), connections wanted if the window has begun, connections in use,
--         ms for which they are held
-- reply   {ms until the window begins, its length ms, its end, connections that the worker holds now}
local key, now = KEYS[1], now_ms()
local delay, length, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[7])
local KEPT_MS = 60000 -- how long a record is kept when it no longer delays anybody
local reply, wanted = {0, 0, '', 0}, ARGV[8]

if length >= 0 then
  local ended = tonumber(redis.call('HGET', key, 'ended')) or 0
  -- the rest of the worker's last window, if no other one was reserved since
  if ARGV[5] ~= '' and ended == tonumber(ARGV[5]) then ended = math.min(ended, now + 1 - ARGV[6]) end
  local begins = math.max(now, ended + delay)
  if begins == now then length = tonumber(ARGV[4]) else wanted = ARGV[9] end
  -- times are whole ms, and the worker may send its last request at the end of the last one
  local ends = string.format('%.0f', begins + length + 1)
  redis.call('HSET', key, 'ended', ends)
  reply = {begins - now, length, ends, 0}
end

if limit > 0 then
  local others = 0
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local worker = string.match(fields[i], '^held (.+)$')
    if worker and worker ~= ARGV[1] then
      local held, expiry = string.match(fields[i + 1], '^(%d+) (%d+)$')
      if tonumber(expiry) > now then others = others + held else redis.call('HDEL', key, fields[i]) end
    end
  end
  -- those in use cannot be taken back
  local held = math.max(tonumber(ARGV[9]), math.min(tonumber(wanted), limit - others))
  if held > 0 then redis.call('HSET', key, 'held ' .. ARGV[1], string.format('%d %.0f', held, now + ARGV[10]))
  else redis.call('HDEL', key, 'held ' .. ARGV[1]) end
  reply[4] = held
end

redis.call('PEXPIRE', key, math.max(reply[1] + reply[2] + delay, tonumber(ARGV[10])) + KEPT_MS)
return reply
