#!lua flags=no-writes
-- Returns which entries were queued again at a better level, so that they are passed over when their turn comes.
-- KEYS
--   P       the crawl's prefix in this shard
-- ARGV
--   host
-- list entries
-- reply     a character for each: "1" if it was queued again and its URL is still to be fetched, "2" if it was queued again,
--           "0" if not; "" if importance is off
local verdicts = {}
if not conf_of(P).credit then return '' end
for i, entry in ipairs(entries) do
  local fetched = page_of(P, number_of(host .. path_of(entry))).fetched
  verdicts[i] = not is_overtaken(P, host, entry) and '0' or fetched and '2' or '1'
end
return table.concat(verdicts)
