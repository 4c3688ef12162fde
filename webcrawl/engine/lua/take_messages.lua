#!lua flags=allow-oom
-- Takes over messages that a consumer has read and not acknowledged. Forgets a consumer that has none, in the same step:
-- with it, the server would forget a message that the consumer reads meanwhile.
-- KEYS
--   stream
-- ARGV
--   group
--   consumer    who takes them
--   owner       who has read them
--   #most
-- reply  the messages, as of XCLAIM: {{ID, {field, value...}}...}
local ids = {}
for i, pending in ipairs(redis.call('XPENDING', stream, group, '-', '+', most, owner)) do ids[i] = pending[1] end
if #ids == 0 then
  redis.call('XGROUP', 'DELCONSUMER', stream, group, owner)
  return {}
end
return redis.call('XCLAIM', stream, group, consumer, 0, unpack(ids))
