-- Ids of a partition's entries go on above an offset that was committed once: a Redis that was wiped, or whose
-- clock is behind, would give lower ones, which nobody plans. KEYS: entries, producers. ARGV: that offset, the
-- offset from which the group goes on. Answers {how many entries came too early: they lie at or below the second;
-- events that the stream ever had, or '' where that is not known}.
local AT_ONCE = 1000
local entries, offset, restored = KEYS[1], ARGV[1], ARGV[2]
local lifts = lift(entries, offset)
local count, from = 0, '-'
repeat
  local rows = lifts and redis.call('XRANGE', entries, from, restored, 'COUNT', AT_ONCE) or {}
  count = count + #rows
  if #rows > 0 then from = '(' .. rows[#rows][1] end
until #rows < AT_ONCE
local totals = redis.call('HMGET', KEYS[2], ':entries', ':events')
local counted = tonumber(totals[1] or '0') == stream_facts(entries)['entries-added']
return {count, counted and (totals[2] or '0') or ''}
