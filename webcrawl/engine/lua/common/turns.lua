-- A share (in thousandths) of the leased hosts comes from the levels below the best, in turn, so that no level starves. Each
-- leased host adds the share to `due`. At a thousand, the next host comes from the lower level that follows `last`.
local function turn_of(P, share)
  local raw = redis.call('GET', P .. 'turn')
  local due, last = string.match(raw or '0 0', '^(%S+) (%S+)$')
  return {raw = raw, due = tonumber(due), last = tonumber(last), share = share}
end

-- Whether a lower level has its turn among the next n hosts.
local function turn_comes(turn, n) return turn.due + n * turn.share >= 1000 end

-- Returns the next level of a mask, and how many of n hosts to lease from it before another level may be next.
local function next_turn(turn, mask, n)
  local best = lowest_of(mask)
  if not turn_comes(turn, 1) then return best, math.min(n, math.ceil((1000 - turn.due) / turn.share) - 1) end
  for i = 1, LEVELS do
    local level = (turn.last + i) % LEVELS
    if level > best and bit.band(mask, bit.lshift(1, level)) ~= 0 then return level, 1 end
  end
  return best, n
end

-- Records that n hosts were leased from a level; `lower`: it is not the best level.
local function took(turn, n, level, lower)
  turn.due = turn.due + n * turn.share
  if lower and n > 0 then turn.due, turn.last = turn.due - n * 1000, level end
end

local function save_turn(P, turn)
  -- at most one turn is due, however long the lower levels were empty
  local text = string.format('%d %d', math.max(-1000, math.min(turn.due, 1000)), turn.last)
  if text ~= turn.raw then redis.call('SET', P .. 'turn', text) end
end
