#!lua flags=allow-oom
-- Replaces the part of a cold bucket by parts that a worker has written to the store, and splits the bucket if these are
-- several. Nothing changes if the bucket has changed since the worker has read it.
-- KEYS
--   P           the crawl's prefix in this shard
--   H           the prefix of host records
-- ARGV
--   segment     the new parts are in; "" = they are empty
--   fence       the lower end of the bucket
--   upper       that of the next bucket; "" = there is none
--   descriptor  of the part that the worker has read; "" = the bucket was empty
-- each piece    in order; the first has the lower end of the bucket
--   from        its lower end
--   part        its descriptor; "" = it is empty
--   filter
-- reply         1 if the bucket was replaced, else 0
local known, now = seen_set(P .. 'seen:', P .. 'n'), now_ms()
local directory, key = known.prefix .. 'cold', known.prefix .. 'cold:' .. fence
local following = redis.call('ZRANGEBYSCORE', directory, '(' .. fence, '+inf', 'LIMIT', 0, 1)[1] or ''
if cold.descriptor(key) ~= descriptor or following ~= upper then return 0 end

if segment ~= '' then
  local announced = tonumber(redis.call('ZSCORE', P .. 'unused', segment))
  local in_use = redis.call('HEXISTS', P .. 'segments', segment) == 1
  if announced and announced < 0 or not announced and not in_use then return 0 end
  redis.call('HINCRBY', P .. 'segments', segment, n_piece)
  redis.call('ZREM', P .. 'unused', segment)
end
for i = 1, n_piece do
  local from, part, filter = piece_at(i)
  redis.call('ZADD', directory, from, from)
  if part ~= '' then
    redis.call('SET', known.prefix .. 'cold:' .. from, part .. string.rep(' ', cold.HEAD - #part) .. filter)
  end
end
if descriptor ~= '' then leave_segment(P, (part_of(descriptor)), now) end
redis.call('HSETNX', P .. 'n', 'cold', 0)
return 1
