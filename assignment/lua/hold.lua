-- ARGV: lease_ms ('' = only asked). Nothing is granted for so long: owners that Redis forgot may still be at work.
-- Answers 1 while that is so. A clock that was set back makes it no longer.
local lease_ms = ARGV[1] ~= '' and ARGV[1] or redis.call('GET', key('hold'))
if not lease_ms then return 0 end
if ARGV[1] ~= '' or redis.call('PTTL', key('hold')) > tonumber(lease_ms) then
  redis.call('SET', key('hold'), lease_ms, 'PX', lease_ms)
end
return 1
