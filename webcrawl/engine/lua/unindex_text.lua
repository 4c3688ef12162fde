#!lua flags=allow-oom
-- Removes a text from the index of near-duplicates.
-- KEYS[1] and further ones: blocks of its SimHash
-- ARGV    SimHash and id of its URL, as for index_text.lua
-- reply   the number of blocks that had it
local entry = ARGV[1]
local found = 0
for _, key in ipairs(KEYS) do
  local texts = redis.call('GET', key) or ''
  local at = string.find(texts, entry, 1, true)
  while at and (at - 1) % #entry ~= 0 do at = string.find(texts, entry, at + 1, true) end
  if at then
    found = found + 1
    local rest = string.sub(texts, 1, at - 1) .. string.sub(texts, at + #entry)
    if rest == '' then redis.call('DEL', key) else redis.call('SET', key, rest) end
  end
end
return found
