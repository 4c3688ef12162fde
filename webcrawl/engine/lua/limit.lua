-- Stores the limits of a host, known or not, and checks the host again if its budget was spent.
-- KEYS
--   P         the crawl's prefix in this shard
--   H         the prefix of host records
-- ARGV
--   host
--   limits    "pages bytes depth ruled": numbers, "-" for the default of all hosts, "=" for the host's present limit;
--             `ruled` is the number of pages that a rule in the settings allows
-- reply       1
local had, has = {}, {}
for word in string.gmatch(redis.call('HGET', P .. 'limits', host) or '', '%S+') do had[#had + 1] = word end
for word in string.gmatch(limits, '%S+') do has[#has + 1] = word == '=' and (had[#has + 1] or '-') or word end
if has[4] == '-' then has[4] = nil end
local text = table.concat(has, ' ')
if text == '- - -' then redis.call('HDEL', P .. 'limits', host)
else redis.call('HSET', P .. 'limits', host, text) end
if redis.call('HGET', P .. 'parked', host) == 'budget' then unpark(P, H, host, now_ms()) end
return 1
