-- Ends in the history what ended at the lock: grants whose lock ran out and that nobody took over.
-- ARGV: their partitions, as somebody read them: to look for them here takes as long as the group is large, and
-- others wait meanwhile. Answers how many ended.
local now, ended = now_ms(), 0
for _, partition in ipairs(ARGV) do
  local grant = grant_of(partition)
  if grant and grant.ended == '-' and redis.call('EXISTS', key('lock:' .. partition)) == 0 then
    end_grant(partition, grant, 'expired', math.min(grant.until_ms, now))
    ended = ended + 1
  end
end
if ended > 0 then hint('expired', '') end
return ended
