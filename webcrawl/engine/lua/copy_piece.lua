#!lua flags=allow-oom
-- Returns a piece of a long list, for a checkpoint. The list is read from its end to its head, where entries leave.
-- KEYS
--   P          the crawl's prefix in this shard
--   H          the prefix of host records
-- ARGV
--   host, level
--   list       "" for the hot list, "out:" for the outbox
--   #read      number of entries, from the end, that were read
--   #most      entries to read
-- reply
--   read       number of entries, from the end, that are read now
--   entries    the entries of this piece; empty once the head is reached
local queue = host .. ' ' .. level
local field, key = list .. queue, P .. (list == '' and 'q:' or list) .. queue
-- entries that were added since then follow the entries that were read; entries taken from the end are in the journal
read = math.max(0, read + (redis.call('HGET', P .. 'reading', field) or 0))
local entries = redis.call('LRANGE', key, -read - most, -read - 1)
if #entries == 0 then
  redis.call('HDEL', P .. 'reading', field)
else
  redis.call('HSET', P .. 'reading', field, 0)
  redis.call('PEXPIRE', P .. 'reading', JOURNAL_MS)
end
read = read + #entries
return {read, entries}
