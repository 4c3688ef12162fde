#!lua flags=allow-oom
-- Removes a text from the index of near-duplicates.
-- KEYS
--   blocks...    of its SimHash
-- ARGV
--   text         SimHash and id of its URL, as for index_text.lua
-- reply          the number of blocks that had the text
local removed = 0
for _, key in ipairs(blocks) do
  local texts = redis.call('GET', key) or ''
  local at = string.find(texts, text, 1, true)
  while at and (at - 1) % #text ~= 0 do at = string.find(texts, text, at + 1, true) end
  if at then
    removed = removed + 1
    local rest = string.sub(texts, 1, at - 1) .. string.sub(texts, at + #text)
    if rest == '' then redis.call('DEL', key) else redis.call('SET', key, rest) end
  end
end
return removed
