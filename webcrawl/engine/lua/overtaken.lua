#!lua flags=no-writes
-- Returns which entries are passed over when their turn comes, because they were queued again at a better level.
-- KEYS
--   P       the crawl's prefix in this shard
-- ARGV
--   host
-- list entries
-- reply     a character for each entry: "1" queued again, and its URL is not fetched yet; "2" queued again, and fetched;
--           "0" not queued again. "" if importance is off
local verdicts = {}
if not conf_of(P).credit then return '' end
for i, entry in ipairs(entries) do
  local fetched = page_of(P, number_of(host .. path_of(entry))).fetched
  verdicts[i] = not is_overtaken(P, host, entry) and '0' or fetched and '2' or '1'
end
return table.concat(verdicts)
