-- The unit that takes turns (POLITENESS_UNIT): a name if the prefix of politeness records ends in "name:", otherwise a host.

local function by_name(H) return string.sub(H, -5) == 'name:' end

-- Returns the name of a host without scheme and port; nil for text that is not a host.
local function name_in(host) return string.match(host, '://(%[.-%])') or string.match(host, '://([^:]+)') end

-- Returns the key of the politeness record of a host, or of its name without scheme and port.
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
