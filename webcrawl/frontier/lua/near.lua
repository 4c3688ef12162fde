#!lua flags=no-writes
-- Look for a near-duplicate among the SimHashes that share one block with the asked one.
-- KEYS[1] a block of the SimHash index
-- ARGV    SimHash (8 bytes, big-endian), the most bits that may differ
-- reply   {URL, bits that differ} of the nearest, or {}
local function ones(x)
  local n = 0
  while x ~= 0 do
    x = bit.band(x, x - 1)
    n = n + 1
  end
  return n
end

local high, low = struct.unpack('>I4I4', ARGV[1])
local nearest, least = nil, tonumber(ARGV[2]) + 1
for _, other in ipairs(redis.call('HKEYS', KEYS[1])) do
  local h, l = struct.unpack('>I4I4', other)
  local bits = ones(bit.bxor(high, h)) + ones(bit.bxor(low, l))
  if bits < least then nearest, least = other, bits end
end
if not nearest then return {} end
return {redis.call('HGET', KEYS[1], nearest), least}
