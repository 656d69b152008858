-- How far one batch may read, without reading an event. KEYS: entries, producers, index of one partition.
-- ARGV: from (read up to here), most events, most bytes, most points to look at.
-- Answers {to, events up to `to` in total or '', 'exact' | 'probe'}: `to` is `from` when nothing is known to
-- lie above it; 'probe' when entries that no producer library counted may lie above `to` within the bounds.
local POINT_EVENTS, POINT_BYTES = 1000, 262144 -- as in append
local entries, producers, index, from = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local most_events, most_bytes = tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('EXISTS', entries) == 0 then return {from, '', 'exact'} end

local facts = stream_facts(entries)
if not above(facts['last-generated-id'], from) then return {from, '', 'exact'} end
local last = redis.call('XREVRANGE', entries, '+', '-', 'COUNT', 1)[1] -- ids above it are no entry's (make_room.lua)
local newest = last and last[1] or from
if not above(newest, from) then return {from, '', 'exact'} end

local function point(row)
  if not row then return nil end
  return {id = row[1], events = tonumber(row[2][2]), bytes = tonumber(row[2][4])}
end
local rows = redis.call('XRANGE', index, '(' .. from, '+', 'COUNT', ARGV[4])
local base = point(redis.call('XREVRANGE', index, from, '-', 'COUNT', 1)[1])
if not base then -- below the first point that is left
  local first = point(rows[1]) or {events = 0, bytes = 0}
  base = {events = math.max(0, first.events - POINT_EVENTS), bytes = math.max(0, first.bytes - POINT_BYTES)}
end
local to, events = from, 0
local more = false
for i = 1, #rows do
  local candidate = point(rows[i])
  local fits = candidate.events - base.events <= most_events and candidate.bytes - base.bytes <= most_bytes
  if i > 1 and not fits then
    more = true
    break
  end
  to, events = candidate.id, candidate.events
end
if more or #rows == tonumber(ARGV[4]) then return {to, text(events), 'exact'} end

-- What lies above the last point is bounded when all of it came through `append`.
local totals = redis.call('HMGET', producers, ':entries', ':events')
local counted = totals[1] and facts['entries-added'] and tonumber(totals[1]) == facts['entries-added']
if not counted then return {to, '', 'probe'} end
return {newest, totals[2], 'exact'}
