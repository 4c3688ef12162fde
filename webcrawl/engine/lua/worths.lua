#!lua flags=no-writes
-- Tells what URLs are worth.
-- KEYS[1] the crawl's prefix in this shard
-- ARGV    numbers of URLs
-- reply   the worth of each; -1 if its credit is not known
local P, worths = KEYS[1], {}
for i, number in ipairs(ARGV) do
  local page = page_of(P, tonumber(number))
  worths[i] = not page.stored and -1 or page.fetched and page.amount or worth_of(P, page.amount)
end
return worths
