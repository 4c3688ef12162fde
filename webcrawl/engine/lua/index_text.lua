-- Remember a text in the index of near-duplicates, and tell which texts share a block with it.
-- KEYS[1] and further ones: blocks of its SimHash
-- ARGV    SimHash (8 bytes) and id of its URL (6 bytes); the most bytes that a block may have
-- reply   what each block held before: as many bytes for each text, the first one first
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
