-- The unit that takes turns: a name, if the prefix of the politeness records is that of names, or else each host (POLITENESS_UNIT).

local function by_name(H) return string.sub(H, -5) == 'name:' end

-- Returns the name of a host without scheme and port; nil for what is not a host.
local function name_in(host) return string.match(host, '://(%[.-%])') or string.match(host, '://([^:]+)') end

-- Returns the key of the politeness record of a host: that of its name without scheme and port, or its own.
local turn_keys = {}
local function turn_key(H, host)
  local key = turn_keys[host]
  if not key then
    key = H .. (by_name(H) and name_in(host) or host)
    turn_keys[host] = key
  end
  return key
end

-- Returns a host's own field in a record that hosts may share, so that a closed port does not condemn the other ports.
local function own_field(H, host, field)
  if not by_name(H) then return field end
  return field .. ' ' .. string.match(host, '^%a*') .. (string.match(host, ':%d+$') or '')
end
