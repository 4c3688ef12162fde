-- A share (in thousandths) of the leased hosts, and of the URLs of a host, comes from the levels below the best, in turn, so
-- that no level starves. Each leased host or URL adds the share to `due`. At a thousand, the next one comes from the lower
-- level that follows `last`. A table, because a script may have 200 local names.
local rota = {}
function rota.read(raw, share)
  local due, last = string.match(raw or '0 0', '^(%S+) (%S+)$')
  return {raw = raw, due = tonumber(due), last = tonumber(last), share = share}
end
-- Returns the state to store, or nil if it has not changed. At most one turn is due, however long the lower levels were empty.
function rota.changed(turn)
  local text = string.format('%d %d', math.max(-1000, math.min(turn.due, 1000)), turn.last)
  return text ~= turn.raw and text or nil
end
-- Returns how many turns lower levels have among the next n.
function rota.turns(turn, n) return math.floor((turn.due + n * turn.share) / 1000) end
-- Returns the level of a mask, below `best`, that has the next turn of lower levels; nil without such a level.
function rota.lower(turn, mask, best)
  for i = 1, LEVELS do
    local level = (turn.last + i) % LEVELS
    if level > best and bit.band(mask, bit.lshift(1, level)) ~= 0 then return level end
  end
end
-- Returns the next level of a mask, and how many of n hosts to lease from it before another level may be next.
function rota.next(turn, mask, n)
  local best = lowest_of(mask)
  if rota.turns(turn, 1) < 1 then return best, math.min(n, math.ceil((1000 - turn.due) / turn.share) - 1) end
  local level = rota.lower(turn, mask, best)
  if level then return level, 1 end
  return best, n
end
-- Records that n came from a level; `lower`: it is not the best level.
function rota.took(turn, n, level, lower)
  turn.due = turn.due + n * turn.share
  if lower and n > 0 then turn.due, turn.last = turn.due - n * 1000, level end
end
-- The turns of the classes of fetches (TRAFFIC, webcrawl.policies.traffic). A worker sends them as MessagePack: site -> the
-- number of recent fetches of each class by its share, and what a fetch adds to this. The class with the lowest number is
-- next (stride scheduling, Waldspurger and Weihl 1995).
function rota.read_classes(sent)
  if sent ~= '' then rota.sites = cmsgpack.unpack(sent) end
end
-- Returns the turns for a host: those of the longest domain of its name that is a site, or the crawl's; nil without TRAFFIC.
function rota.of_host(host)
  if not rota.sites then return end
  local name = name_in(host)
  while name and not rota.sites[name] do name = string.match(name, '^[^.]*%.(.+)$') end
  return rota.sites[name or '']
end
-- Returns the classes of which a host has URLs, as a set.
function rota.classes_of(P, record)
  local present = {[0] = record.mask ~= 0 or nil}
  for _, level in ipairs(record.others > 0 and redis.call('ZRANGE', P .. 'levels:' .. record.host, 0, -1) or {}) do
    present[classes.of_queue(tonumber(level))] = true
  end
  return present
end
-- Whether a class may have a turn: no more of its URLs are wanted if its number is infinite.
function rota.may_have(turns, class) return turns[1][class + 1] < math.huge end
-- Returns the class of a set that has the next turn.
function rota.next_class(turns, among)
  local first
  for class in pairs(among) do
    if not first or turns[1][class + 1] < turns[1][first + 1] then first = class end
  end
  return first
end
function rota.count_class(turns, class, n) turns[1][class + 1] = turns[1][class + 1] + n * turns[2][class + 1] end
