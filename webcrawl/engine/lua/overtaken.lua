#!lua flags=no-writes
-- Tells which entries were queued again at a better level, so that they are passed over when their turn comes.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    host, entries
-- reply   "1" for each that was and whose URL is still to be fetched, "2" for other ones that were, "0" for the rest; "" if
--         importance is off
local P, verdicts = KEYS[1], {}
if not conf_of(P).credit then return '' end
for i = 2, #ARGV do
  local fetched = page_of(P, number_of(ARGV[1] .. path_of(ARGV[i]))).fetched
  verdicts[i - 1] = not is_overtaken(P, ARGV[1], ARGV[i]) and '0' or fetched and '2' or '1'
end
return table.concat(verdicts)
