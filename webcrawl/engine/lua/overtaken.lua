#!lua flags=no-writes
-- Tells which entries were queued again at a better level, so that they are passed over when their turn comes.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    host, entries
-- reply   "1" for each that was, "0" for the others; "" if importance is off
local P, verdicts = KEYS[1], {}
if not conf_of(P).credit then return '' end
for i = 2, #ARGV do verdicts[i - 1] = is_overtaken(P, ARGV[1], ARGV[i]) and '1' or '0' end
return table.concat(verdicts)
