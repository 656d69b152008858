-- ARGV: member, ... whose stored report cannot be read: each is asked for a complete one with its next heartbeat.
for _, member in ipairs(ARGV) do
  if redis.call('HEXISTS', key('members'), member) == 1 then
    redis.call('HSETNX', key('asked'), member, text(now_ms()))
  end
end
return #ARGV
