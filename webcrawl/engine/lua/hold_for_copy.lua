#!lua flags=allow-oom
-- Holds a shard for one checkpoint: entries that leave their places are written to a journal.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    "begin" | "renew" | "end", name of the checkpoint, ms that the hold lasts
-- reply   name of the checkpoint that holds the shard; "" without one
local P, step, name = KEYS[1], ARGV[1], ARGV[2]
local key, journal, reading = P .. 'copying', P .. 'moved', P .. 'reading'
local holder = redis.call('GET', key) or ''
if step == 'begin' and holder == '' then
  redis.call('UNLINK', journal, reading)
  redis.call('SET', key, name, 'PX', ARGV[3])
  return name
end
if holder == name and step == 'renew' then
  redis.call('PEXPIRE', key, ARGV[3])
  redis.call('PEXPIRE', journal, JOURNAL_MS)
elseif holder == name and step == 'end' then
  redis.call('UNLINK', key, journal, reading)
end
return holder
