-- Adds a text to the index of near-duplicates, and returns the texts that share a block with it.
-- KEYS[1] and further ones: blocks of its SimHash
-- ARGV    SimHash (8 bytes) and id of its URL (6 bytes); the most bytes of a block
-- reply   the previous content of each block: 14 bytes for each text, the first one first
local entry, most = ARGV[1], tonumber(ARGV[2])
local held = {}
for place, key in ipairs(KEYS) do
  local texts = redis.call('GET', key) or ''
  held[place] = texts
  if #texts + #entry <= most and not string.find(texts, entry, 1, true) then
    redis.call('APPEND', key, entry)
  end
end
return held
