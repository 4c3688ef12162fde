-- A piece of a long queue, for a checkpoint. Such a queue is read from its end to its head: entries leave at the head.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    host, level, how many entries from the end are known (0 to begin), most entries
-- reply   how many entries from the end are known now, and the ones before them; none when the head has been reached
local P, queue, known, most = KEYS[1], ARGV[1] .. ' ' .. ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
-- what was added since then has moved the known ones away from the end; what was taken from there is in the journal
if known > 0 then known = math.max(0, known + (redis.call('HGET', P .. 'reading', queue) or 0)) end
local entries = redis.call('LRANGE', P .. 'q:' .. queue, -known - most, -known - 1)
if #entries == 0 then
  redis.call('HDEL', P .. 'reading', queue)
else
  redis.call('HSET', P .. 'reading', queue, 0)
  redis.call('PEXPIRE', P .. 'reading', JOURNAL_MS)
end
return {known + #entries, unpack(entries)}
