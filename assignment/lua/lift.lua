-- Ids of a partition's entries go on above an offset that was committed once: a Redis that was wiped, or whose
-- clock is behind, would give lower ones, which nobody plans. KEYS: entries. ARGV: that offset, the offset from
-- which the group goes on. Answers how many entries came too early: they lie at or below the second.
local AT_ONCE = 1000
local entries, offset, restored = KEYS[1], ARGV[1], ARGV[2]
if not lift(entries, offset) then return 0 end
local count, from = 0, '-'
repeat
  local rows = redis.call('XRANGE', entries, from, restored, 'COUNT', AT_ONCE)
  count = count + #rows
  if #rows > 0 then from = '(' .. rows[#rows][1] end
until #rows < AT_ONCE
return count
