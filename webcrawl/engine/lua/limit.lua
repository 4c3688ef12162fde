-- Stores the limits of a host, known or not, and checks the host again if its budget was spent.
-- KEYS[1] the crawl's prefix in this shard   KEYS[2] the prefix of host records
-- ARGV    host, "pages bytes depth ruled" (numbers, "-" for the limit of all hosts, "=" for the one it has); `ruled` are
--         the pages that a rule in the settings allows
-- reply   1
local P, host = KEYS[1], ARGV[1]
local had, limits, i = {}, {}, 0
for word in string.gmatch(redis.call('HGET', P .. 'limits', host) or '', '%S+') do had[#had + 1] = word end
for word in string.gmatch(ARGV[2], '%S+') do
  i = i + 1
  limits[i] = word == '=' and (had[i] or '-') or word
end
if limits[4] == '-' then limits[4] = nil end
local text = table.concat(limits, ' ')
if text == '- - -' then redis.call('HDEL', P .. 'limits', host)
else redis.call('HSET', P .. 'limits', host, text) end
if redis.call('HGET', P .. 'parked', host) == 'budget' then unpark(P, KEYS[2], host, now_ms()) end
return 1
