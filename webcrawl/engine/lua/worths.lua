#!lua flags=no-writes
-- Returns the worth of URLs.
-- KEYS
--   P       the crawl's prefix in this shard
-- ARGV
-- list urls by their numbers
-- reply     the worth of each; -1 if its credit is not known
local worths = {}
for i, number in ipairs(urls) do
  local page = page_of(P, tonumber(number))
  worths[i] = not page.stored and -1 or page.fetched and page.amount or worth_of(P, page.amount)
end
return worths
