-- The queues of some hosts, for a checkpoint.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    most entries, hosts
-- reply   per host, as many as there is room for and one at least: {host, {entry...}, {level...}}: what is queued, level by
--         level, and the levels at which too much is queued to be told here
local P, room, reply = KEYS[1], tonumber(ARGV[1]), {}
for i = 2, #ARGV do
  local entries, long = {}, {}
  for level = 0, LEVELS - 1 do
    local key = P .. 'q:' .. ARGV[i] .. ' ' .. level
    if redis.call('LLEN', key) > room - #entries then
      if i > 2 then return reply end
      long[#long + 1] = level
    else
      for _, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do entries[#entries + 1] = entry end
    end
  end
  room = room - #entries
  reply[#reply + 1] = {ARGV[i], entries, long}
end
return reply
