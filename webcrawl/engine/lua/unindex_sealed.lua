#!lua flags=allow-oom
-- Removes the texts of a block of the index of near-duplicates that are in a sealed run.
-- KEYS
--   block
-- ARGV
--   #size     bytes of a text: SimHash and id of its URL
-- list texts
-- reply       the number of texts that are left
local sealed, left = {}, {}
for _, text in ipairs(texts) do sealed[text] = true end
local held = redis.call('GET', block) or ''
for at = 1, #held, size do
  local text = string.sub(held, at, at + size - 1)
  if not sealed[text] then left[#left + 1] = text end
end
if #left == 0 then redis.call('DEL', block) else redis.call('SET', block, table.concat(left)) end
return #left
