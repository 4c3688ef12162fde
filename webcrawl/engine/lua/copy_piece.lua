#!lua flags=allow-oom
-- Returns a piece of a long list, for a checkpoint. The list is read from its end to its head, where entries leave.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    host, level, "" for the hot list or "out:" for the outbox, how many entries from the end are read, most entries
-- reply   how many entries from the end are read now, then the new ones; no entries once the head is reached
local P, queue, known, most = KEYS[1], ARGV[1] .. ' ' .. ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local field, key = ARGV[3] .. queue, P .. (ARGV[3] == '' and 'q:' or ARGV[3]) .. queue
-- entries added since then moved the known ones away from the end; entries taken from the end are in the journal
known = math.max(0, known + (redis.call('HGET', P .. 'reading', field) or 0))
local entries = redis.call('LRANGE', key, -known - most, -known - 1)
if #entries == 0 then
  redis.call('HDEL', P .. 'reading', field)
else
  redis.call('HSET', P .. 'reading', field, 0)
  redis.call('PEXPIRE', P .. 'reading', JOURNAL_MS)
end
return {known + #entries, unpack(entries)}
