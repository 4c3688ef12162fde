-- The changes of an operator to URLs that wait (webcrawl.frontier.listing.setting): other levels, other dates, and dropped
-- URLs.

-- Returns the changes of `n` URLs by path, {number, level, due, drop} each, and an outcome for each: "0" not found, "1"
-- changed, "2" unchanged, because it was so before. `url_at` returns path, level, and date or "drop" of a URL by its number.
local function changes_of(n, url_at)
  local changes, outcomes = {}, {}
  for i = 1, n do
    local path, level, date = url_at(i)
    changes[path], outcomes[i] = {number = i, level = level, due = tonumber(date), drop = date == 'drop'}, '0'
  end
  return changes, outcomes
end

-- Returns an entry at another level. An explicit null as `extra` means that an operator chose the level, which importance
-- and the records of patterns then do not change.
local function at_level(entry, level)
  local time
  entry, time = without_time(entry)
  local count, fields = string.byte(entry, 5) - 144, string.sub(entry, 6)
  if count == 5 then
    local exact = cmsgpack.unpack(string.sub(entry, 5))[5]
    count, fields = 4, string.sub(fields, 1, -1 - #cmsgpack.pack(exact))
  end
  fields = fields .. string.rep('\192', 4 - count)
  local first, header = level, 148
  if is_other(level) then first, header, fields = LEVELS, 149, fields .. cmsgpack.pack(level) end
  if string.byte(entry, 1) >= DATED then first = first + DATED end
  first = first + classes.UNIT * classes.of(entry)
  return string.char(first) .. string.sub(entry, 2, 4) .. string.char(header) .. fields .. time
end

-- Drops a URL that was taken from its list. Its credit goes to Lambda, like the credit of a dead letter.
local function drop_url(P, host, entry, now)
  local url = host .. path_of(entry)
  if conf_of(P).credit then giver.to_lambda(P, url) end
  plan.settle(P, host, entry, now)
  redis.call('HINCRBY', P .. 'n', 'dropped', redis.call('HSET', P .. 'dropped', url, now - ms_ahead()))
end

-- Keeps importance from queuing a URL again. The level in its record stays, so that older entries are passed over.
local function leave_level(P, host, entry)
  if not conf_of(P).credit then return end
  local page = page_of(P, number_of(host .. path_of(entry)))
  page.left = true
  if page.stored then save_page(P, page) end
end

-- Applies a change to a queued entry. Returns the entry to queue, unchanged if nothing changes; nil if it leaves its queue.
local function change_queued(P, host, entry, change, now)
  if change.drop then return drop_url(P, host, entry, now) end
  local new, due = entry, change.due and change.due + ms_ahead()
  if change.level and change.level ~= level_of(entry) then new = at_level(entry, change.level) end
  if not (due and due > now) then
    if new ~= entry then leave_level(P, host, entry) end
    return new
  end
  leave_level(P, host, entry)
  local added = redis.call('ZADD', P .. 'scheduled', due, delayed('-', host, dated(new)))
  redis.call('HINCRBY', P .. 'n', 'scheduled', added)
end

-- Applies changes to queued entries; returns the indexes of the entries that leave, and the entries to queue instead.
local function change_all(P, host, entries, changes, outcomes, now)
  local leave, again = {}, {}
  for i, entry in ipairs(entries) do
    local path = path_of(entry)
    local change = changes[path]
    if change and not (conf_of(P).credit and is_overtaken(P, host, entry)) then
      local new = change_queued(P, host, entry, change, now)
      if outcomes[change.number] ~= '1' then outcomes[change.number] = new == entry and '2' or '1' end
      if new ~= entry then leave[#leave + 1], again[#again + 1] = i, new end
    end
  end
  return leave, again
end

-- Queues entries of a host after n entries left its lists, and makes the host ready. `before`: its standing before that.
local function queue_anew(P, H, record, before, n, again, now)
  redis.call('HINCRBY', P .. 'n', 'queued', #again - n)
  if is_parked(P, record.host) then redis.call('HINCRBY', P .. 'n', 'parked', -n) end
  if before then leave_ready(P, record, before) end
  save_record(P, record)
  if #again > 0 then return enqueue(P, H, record.host, again, false, now) end
  make_ready(P, H, record.host, now)
  save_record(P, record)
end
