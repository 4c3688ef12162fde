#!lua flags=allow-oom
-- Settles URLs of leased hosts: removes finished URLs, delays failed URLs, and makes dead letters of the rest. Skips URLs
-- that were settled before, because a report whose reply was lost is repeated. Takes many reports, because to define the
-- functions that it uses costs as much as a report.
-- KEYS
--   P              the crawl's prefix in this shard
--   H              the prefix of host records
-- ARGV
--   #lease_ms
--   limits         of hosts without limits of their own
--   purse          for the credit of the pages
--   #share         of lower levels of a host, in thousandths
-- each report
--   host, token
--   #settles       how many of the URLs below it settles; those of the first report come first
--   #more          further URLs wanted
--   #pause_ms      until the released host may be asked again; -1 = keep the lease
--   lets_go        "1" to release the host and keep the lease for the URLs that are not settled
--   failures       of the host in a row
--   quiet_ms       after which the failures are forgotten
--   gap_ms         between two requests of the worker
--   #better_than   further URLs must be of a better level than this; "" = of any level
--   answered       "1" if the host has answered
--   patterns       records of its URL patterns; "" = unchanged, "-" = none
--   dust           evidence for its DUST rules; "" = unchanged, "-" = none
--   over           owner whose budget is spent, and the penalty; "" = unchanged, "-" = nobody
--   asked          "1" if a Retry-After asked for the pause
--   class_turns    see common/turns.lua; "" without TRAFFIC
-- each url
--   index
--   verdict        "done" | "again" | "retry" | "dead" | "sink" | "back" to the head of its queue, untried
--   delay_ms
--   reason         or the level to which the URL sinks
--   #next_class    of the next fetch of a URL that comes again; "" = the same
--   pages, bytes
--   #flags         1 if the page has links, plus 2 if the answer was an error or was missing
-- reply each       empty if the lease was lost: nothing changes then, but a blocked host that is released becomes free
--   credits        credit that the purse got for each URL; empty if importance is off
--   worths         of the further URLs; empty if importance is off
--   urls           the further URLs: index, entry, index, entry...
local now, N = now_ms(), P .. 'n'
local LINKS, FAILED = 1, 2

-- Applies the next report.
local last = 0
local function acknowledge(host, token, settles, more, pause_ms, lets_go, failures, quiet_ms, gap_ms, better_than, answered,
    patterns, dust, over, asked, class_turns)
  local key, turn, first = P .. 'lease:' .. host, turn_key(H, host), last + 1
  last = last + settles

  local function free_host(fields)
    let_go(H, host, now, pause_ms, quiet_ms, asked == '1', failures, fields)
    wake_behind(P, H, host, now)
  end

  -- the fields of the lease: its token, the index of its next URL, whether it has let go of the host, and the URLs
  local names, lease = {'token', 'next', 'let_go'}, {}
  for i = first, last do names[#names + 1] = (url_at(i)) end
  for from = 1, #names, 1000 do
    local values = redis.call('HMGET', key, unpack(names, from, math.min(from + 999, #names)))
    for i, value in ipairs(values) do lease[names[from + i - 1]] = value end
  end
  local holds_it, due, shares = unpack(redis.call('HMGET', turn, 'holder', 'until', 'shares'))
  local is_held = holds_it == holder(P, H, host, token)
  shares = shares and cmsgpack.unpack(shares)
  if lease.token ~= token or not (is_held or lease.let_go) then
    redis.call('HINCRBY', N, 'refused', 1)
    -- the lease was taken back, but the host is still held for it
    if pause_ms >= 0 and is_held then free_host() end
    return {}
  end

  for name, value in pairs({patterns = patterns, dust = dust}) do
    if value == '-' then redis.call('HDEL', P .. name, host)
    elseif value ~= '' then redis.call('HSET', P .. name, host, value) end
  end

  if over ~= '' then set_over_budget(P, record_of(P, host), over) end

  local settled, back, done, host_pages, host_bytes, errors, credits, credited = {}, {}, 0, 0, 0, 0, {}, conf_of(P).credit
  for i = first, last do
    local index, verdict, delay_ms, reason, next_class, pages, bytes, flags = url_at(i)
    local entry = lease[index]
    local nth = i - first + 1
    if credited then credits[nth] = 0 end
    if entry then
      settled[#settled + 1], lease[index] = index, nil
      moved(P, host, {entry})
      host_pages, host_bytes = host_pages + pages, host_bytes + bytes
      if bit.band(flags, FAILED) ~= 0 then errors = errors + 1 end
      if credited and (verdict == 'done' or verdict == 'again') then
        local url = host .. path_of(entry)
        if bit.band(flags, LINKS) ~= 0 then credits[nth] = giver.to_links(P, url, purse) else giver.to_lambda(P, url) end
      end
      if verdict == 'done' or verdict == 'again' then done = done + 1 end
      if verdict == 'done' then
        plan.settle(P, host, entry, now)
      elseif verdict == 'again' then
        -- a URL that is rescheduled twice comes back once, at the later time
        local member = delayed('-', host, dated(with_counters_reset(classes.changed(entry, next_class or classes.of(entry)))))
        redis.call('HINCRBY', N, 'scheduled', redis.call('ZADD', P .. 'scheduled', now + delay_ms, member))
        plan.add(P, host, entry, now + delay_ms)
      elseif verdict == 'retry' then
        -- padded, so that entries due in the same millisecond keep their order
        local serial = string.format('%015.0f', redis.call('HINCRBY', N, 'serial', 1))
        local member = delayed(serial, host, counted(entry, 1, 0, 0))
        redis.call('HINCRBY', N, 'later', redis.call('ZADD', P .. 'later', now + delay_ms, member))
      elseif verdict == 'sink' then
        push(P, host, {classes.changed(string.char(tonumber(reason)) .. string.sub(entry, 2), classes.of(entry))}, false)
        redis.call('HINCRBY', N, 'queued', 1)
      elseif verdict == 'back' then
        back[#back + 1] = {tonumber(index), entry}
      else
        bury(P, host, entry, reason, now)
      end
    end
  end
  for from = 1, #settled, 1000 do redis.call('HDEL', key, unpack(settled, from, math.min(from + 999, #settled))) end
  if done > 0 then redis.call('HINCRBY', N, 'done', done) end
  spend(P, host, host_pages, host_bytes)
  if errors > 0 then redis.call('HINCRBY', P .. 'errors', host, errors) end
  local fields = {'gap', gap_ms}
  if answered == '1' then fields[3], fields[4] = 'answered', 1 end

  if #back > 0 then
    push(P, host, in_old_order(back), true)
    redis.call('HINCRBY', N, 'queued', #back)
  end

  local worths, urls = {}, {}
  if pause_ms >= 0 then
    if #settled > 0 then redis.call('HINCRBY', N, 'leased', -#settled) end
    if lets_go == '1' then redis.call('HSET', key, 'let_go', 1) else give_back(P, host, nil) end
    if shares then sharing.take(P, H, host, shares, 0, now) end
    if is_held then
      free_host(fields)
      if shares then sharing.tell(shares, now) end
    end
    if lets_go ~= '1' then make_ready(P, H, host, now) end
    return {credits, worths, urls}
  end

  -- Whether only better URLs are wanted, but the host has no better URLs.
  local function none_is_better()
    if not better_than then return false end
    local best = best_level(P, record_of(P, host))
    return not best or best >= better_than
  end

  -- Whether the host has sunk to the lowest level, or is ahead of its share, while others have better URLs.
  local function must_wait()
    local record = record_of(P, host)
    if trust.is_ahead(P, H, record) then return true end
    return standing(P, record) == LOWEST and slow_gap(P, H, record) > 0
  end

  -- like `hold`, without what it has done before
  redis.call('ZADD', P .. 'leases', now + lease_ms, host)
  if is_held then redis.call('HSET', turn, 'held', now + lease_ms, unpack(fields)) end
  local blocked = (tonumber(due) or 0) > now
  local wanted = more > 0 and by_name(H) and #names_behind(P, H, host) > 0
  if shares then
    local _, any = sharing.who_waits(P, shares, now)
    wanted = wanted or any
  end
  rota.read_classes(class_turns)
  if more > 0 and is_held and not (blocked or wanted or none_is_better() or is_parked(P, host) or must_wait()) then
    local entries
    entries, worths = pop(P, host, allowance(P, host, more, limits, key), better_than, share)
    for i, entry in ipairs(entries) do urls[2 * i - 1], urls[2 * i] = lease.next + i - 1, entry end
    if #entries > 0 then
      redis.call('HSET', key, 'next', lease.next + #entries, unpack(urls))
      redis.call('HINCRBY', N, 'queued', -#entries)
    end
  end
  local leased = #urls / 2 - #settled
  if leased ~= 0 then redis.call('HINCRBY', N, 'leased', leased) end
  return {credits, worths, urls}
end

local replies = {}
for i = 1, n_report do replies[i] = acknowledge(report_at(i)) end
giver.fill(P, purse, now)
save_ledger(P)
return replies
