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
if not replace_cold(P, P .. 'seen:', segment, fence, upper, descriptor, n_piece, piece_at) then return 0 end
redis.call('HSETNX', P .. 'n', 'cold', 0)
return 1
