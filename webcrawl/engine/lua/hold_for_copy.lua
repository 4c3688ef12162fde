#!lua flags=allow-oom
-- Holds a shard for one checkpoint: entries that leave their lists are written to a journal meanwhile.
-- KEYS
--   P          the crawl's prefix in this shard
--   H          the prefix of host records
-- ARGV
--   step       "begin" | "renew" | "end"
--   name       of the checkpoint
--   hold_ms    for which the hold lasts
-- reply        name of the checkpoint that holds the shard; "" without one
local key, journal, reading = P .. 'copying', P .. 'moved', P .. 'reading'
local current = redis.call('GET', key) or ''
if step == 'begin' and current == '' then
  redis.call('UNLINK', journal, reading)
  redis.call('SET', key, name, 'PX', hold_ms)
  return name
end
if current == name and step == 'renew' then
  redis.call('PEXPIRE', key, hold_ms)
  redis.call('PEXPIRE', journal, JOURNAL_MS)
elseif current == name and step == 'end' then
  redis.call('UNLINK', key, journal, reading)
end
return current
