-- Ends in the history what ended at the lock: a grant whose lock ran out and that nobody took over.
-- ARGV: how many at most, for others wait meanwhile. Answers how many.
local now, most = now_ms(), tonumber(ARGV[1])
local ended = 0
local grants = redis.call('HGETALL', key('grants'))
for i = 1, #grants, 2 do
  if string.sub(grants[i + 1], -2) == ' -' and redis.call('EXISTS', key('lock:' .. grants[i])) == 0 then
    local grant = grant_of(grants[i])
    end_grant(grants[i], grant, 'expired', math.min(grant.until_ms, now))
    ended = ended + 1
    if ended == most then break end
  end
end
if ended > 0 then hint('expired', '') end
return ended
