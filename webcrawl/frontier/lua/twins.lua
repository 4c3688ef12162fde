-- Who had this payload first? Remembers the asker when nobody had.
-- KEYS[1] a bucket of the checksum index
-- ARGV    checksum, time and URL of the asker
-- reply   time and URL of the first with this checksum (the asker's own when it is the first)
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then return ARGV[2] end
return redis.call('HGET', KEYS[1], ARGV[1])
