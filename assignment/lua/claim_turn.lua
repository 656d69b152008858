-- ARGV: member, lease_ms (0 = it gives the turn back). Who computes the targets of a group whose agents
-- coordinate: it only saves work, what is computed is compared when it is stored.
-- Answers 0: this member, for so long; else in how many ms to ask again; -1: a dashboard computes.
local coordination = redis.call('HGET', KEYS[1], 'coordination')
if not coordination then return math.max(tonumber(ARGV[2]), 1) end -- nobody made the group yet
if coordination ~= 'client' then return -1 end
local holder = redis.call('GET', key('coordinator'))
if holder and holder ~= ARGV[1] then
  local left_ms = math.max(redis.call('PTTL', key('coordinator')), 1)
  if left_ms <= tonumber(ARGV[2]) or ARGV[2] == '0' then return left_ms end
  redis.call('SET', key('coordinator'), holder, 'PX', ARGV[2]) -- the clock was set back
  return tonumber(ARGV[2])
end
if ARGV[2] == '0' then
  redis.call('DEL', key('coordinator'))
  return 1
end
redis.call('SET', key('coordinator'), ARGV[1], 'PX', ARGV[2])
return 0
