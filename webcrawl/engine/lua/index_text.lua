-- Adds a text to the index of near-duplicates, and returns the texts that share a block with it.
-- KEYS
--   blocks...    of its SimHash
-- ARGV
--   text         SimHash (8 bytes) and id of its URL (6 bytes)
--   #most        bytes of a block
-- reply          the previous content of each block: 14 bytes for each text, the oldest first
local before = {}
for i, key in ipairs(blocks) do
  local texts = redis.call('GET', key) or ''
  before[i] = texts
  if #texts + #text <= most and not string.find(texts, text, 1, true) then redis.call('APPEND', key, text) end
end
return before
