-- The record of a host with URLs, in the hash `queued`: its levels and, while they are few, the entries themselves. Most
-- hosts never have more than a few entries, for which a list would take more memory.

-- Shortens the common beginnings of a host. Names are unique, because a host has no slash after its scheme.
local function name_of(host)
  if string.sub(host, 1, 8) ~= 'https://' then return host end
  if string.sub(host, 9, 12) == 'www.' then return '/' .. string.sub(host, 13) end
  return string.sub(host, 9)
end

local function host_of(name)
  if string.byte(name) == 47 then return 'https://www.' .. string.sub(name, 2) end
  return string.find(name, '://', 1, true) and name or 'https://' .. name
end

-- Returns the record of a host, the same table throughout a script; `stored` saves reading it:
--   mask    its levels from 0 to 7; in the second byte, the levels whose hot lists are closed
--   others  number of its URLs at other levels, or of queues of a class; the sorted set `levels:<host>` has these levels
--   few     its entries, all of one level from 0 to 7, each after its length; nil if the entries are in lists
--   listed  the levels in whose `due` or `new` list the host is, see ready.lua
--   stored  its bytes: `listed`, then `few`, or else the two bytes of the mask and, unless it is 0, `others`
local records = {}
local function record_of(P, host, stored)
  local record = records[host]
  if record then return record end
  local name = name_of(host)
  if stored == nil then stored = redis.call('HGET', P .. 'queued', name) end
  record = {host = host, name = name, stored = stored, mask = 0, others = 0, listed = 0}
  if stored then
    record.listed = string.byte(stored)
    if #stored == 3 or #stored == 7 then
      local levels, closed = string.byte(stored, 2, 3)
      record.mask = levels + 256 * closed
      if #stored == 7 then record.others = struct.unpack('<I4', stored, 4) end
    else
      record.few = string.sub(stored, 2)
      record.mask = bit.lshift(1, classes.level(string.byte(stored, 3)))
    end
  end
  records[host] = record
  return record
end

-- Reads and writes the records of many hosts together, for a script that changes no lease. Between `begin` and `write`, changed
-- records and new names at the ends of lists are kept here: name -> bytes, and key -> names.
local together = {}
function together.begin(P, hosts)
  together.changed, together.ends = {}, {}
  if #hosts < 2 then return end
  local names = {}
  for i, host in ipairs(hosts) do names[i] = name_of(host) end
  local stored, leases = redis.call('HMGET', P .. 'queued', unpack(names)), redis.call('ZMSCORE', P .. 'leases', unpack(hosts))
  for i, host in ipairs(hosts) do record_of(P, host, stored[i]).is_leased = leases[i] and true or false end
end
function together.save(P, name, bytes)
  if together.changed then together.changed[name] = bytes
  elseif bytes then redis.call('HSET', P .. 'queued', name, bytes)
  else redis.call('HDEL', P .. 'queued', name) end
end
function together.put_at_end(key, name)
  if not together.ends then return redis.call('RPUSH', key, name) end
  local names = together.ends[key] or {}
  together.ends[key], names[#names + 1] = names, name
end
function together.write(P)
  local flat, changed, ends = {}, together.changed, together.ends
  together.changed, together.ends = nil, nil
  for name, bytes in pairs(changed) do
    if bytes then flat[#flat + 1], flat[#flat + 2] = name, bytes else together.save(P, name, bytes) end
  end
  for from = 1, #flat, 2000 do redis.call('HSET', P .. 'queued', unpack(flat, from, math.min(from + 1999, #flat))) end
  for key, names in pairs(ends) do
    for from = 1, #names, 1000 do redis.call('RPUSH', key, unpack(names, from, math.min(from + 999, #names))) end
  end
end

-- Writes a record that has changed.
local function save_record(P, record)
  local bytes = false
  if record.few then
    bytes = string.char(record.listed) .. record.few
  elseif record.mask ~= 0 or record.others > 0 or record.listed ~= 0 then
    bytes = string.char(record.listed, record.mask % 256, math.floor(record.mask / 256))
    if record.others > 0 then bytes = bytes .. struct.pack('<I4', record.others) end
  end
  if bytes == record.stored then return end
  together.save(P, record.name, bytes)
  record.stored = bytes
end

-- Returns the pages and the bytes that were received from a host.
local function spent_by(P, record)
  if record.spent == nil then record.spent = redis.call('HGET', P .. 'spent', record.host) end
  if not record.spent then return 0, 0 end
  local pages, bytes = string.match(record.spent, '^(%d+) (%d+)')
  return tonumber(pages), tonumber(bytes)
end

local function has_urls(record) return record.mask ~= 0 or record.others > 0 end

-- Returns the best level of a host, or of its queues of a class; nil without URLs there.
local function best_level(P, record, class)
  local lowest = (not class or class == 0) and lowest_of(record.mask) or nil
  if record.others == 0 then return lowest end
  for _, text in ipairs(redis.call('ZRANGE', P .. 'levels:' .. record.host, 0, class and -1 or 0)) do
    local other = tonumber(text)
    if lowest and lowest <= other then return lowest end
    if not class or classes.of_queue(other) == class then return other end
  end
  return lowest
end

-- Returns the levels of a host, best first; with `most`, at most so many of the levels that are not in its mask.
local function levels_of(P, record, most)
  local levels = record.others > 0 and redis.call('ZRANGE', P .. 'levels:' .. record.host, 0, (most or 0) - 1) or {}
  for i, level in ipairs(levels) do levels[i] = tonumber(level) end
  for level = 0, LEVELS - 1 do
    if bit.band(record.mask, bit.lshift(1, level)) ~= 0 then levels[#levels + 1] = level end
  end
  if record.others > 0 then table.sort(levels) end
  return levels
end

-- Whether a hot list is closed: more entries are in its outbox or the store.
local function is_closed(P, record, level)
  if not is_other(level) then return bit.band(record.mask, bit.lshift(256, level)) ~= 0 end
  local queue = queue_of(record.host, level)
  return redis.call('EXISTS', P .. 'out:' .. queue, P .. 'tail:' .. queue) > 0
end

local function close_level(record, level)
  if not is_other(level) then record.mask = bit.bor(record.mask, bit.lshift(256, level)) end
end

local function open_level(record, level)
  if not is_other(level) then record.mask = bit.band(record.mask, bit.bnot(bit.lshift(256, level))) end
end

-- Records that a level got n entries; n is negative for lost entries.
local function count_entries(P, record, level, n)
  if is_other(level) then
    record.others = record.others + n
    if n > 0 then redis.call('ZADD', P .. 'levels:' .. record.host, level, classes.level_text(level)) end
  elseif n > 0 then
    record.mask = bit.bor(record.mask, bit.lshift(1, level))
  end
end

-- Removes a level without entries.
local function drop_level(P, record, level)
  if is_other(level) then redis.call('ZREM', P .. 'levels:' .. record.host, classes.level_text(level))
  else record.mask = bit.band(record.mask, bit.bnot(bit.lshift(1, level))) end
end

local function few_entries(few)
  local entries, from = {}, 1
  while from <= #few do entries[#entries + 1], from = struct.unpack('Bc0', few, from) end
  return entries
end

-- Packs entries as `few`, in order or backwards; returns nil if an entry has another level, or `room` bytes are not enough.
local FEW_BYTES = 240
local function as_few(entries, level, backwards, room)
  local parts, last = {}, 2 * #entries
  for i, entry in ipairs(entries) do
    local before = backwards and last - 2 * i or 2 * i - 2
    room = room - #entry - 1
    if room < 0 or level_of(entry) ~= level then return end
    parts[before + 1], parts[before + 2] = string.char(#entry), entry
  end
  return table.concat(parts)
end

-- Adds entries to the head or the end of `few`; returns false if the entries would then be too long, more than `most`, or of
-- several levels.
local function add_few(record, entries, first, most)
  if has_urls(record) and not record.few then return false end
  local few = record.few or ''
  local level = few == '' and level_of(entries[1]) or classes.level(string.byte(few, 2))
  if is_other(level) then return false end
  local more = as_few(entries, level, first, FEW_BYTES - #few)
  if not more or most < FEW_BYTES and #few_entries(few) + #entries > most then return false end
  record.few, record.mask = first and more .. few or few .. more, bit.lshift(1, level)
  return true
end

-- Replaces `few` by these entries.
local function keep_few(record, entries)
  if #entries == 0 then record.few, record.mask = nil, 0
  else record.few = as_few(entries, level_of(entries[1]), false, FEW_BYTES) end
end

-- Whether a host is parked: an operator blocked it or its budget is spent. It keeps its URLs but is not leased.
local any_parked
local function is_parked(P, host)
  local record = record_of(P, host)
  if record.parked == nil then
    if any_parked == nil then any_parked = redis.call('EXISTS', P .. 'parked') == 1 end
    record.parked = any_parked and redis.call('HEXISTS', P .. 'parked', host) == 1
  end
  return record.parked
end
