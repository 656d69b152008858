-- ARGV: member, then partition, fence, expected state, ... Answers per partition 1 (released now) or 0 (not ours any
-- more, or in another state: one that arrives late must not take what was given back meanwhile).
local member = ARGV[1]
local now = now_ms()
local answers, released = {}, false
for i = 2, #ARGV, 3 do
  local partition, fence = ARGV[i], ARGV[i + 1]
  local held = holds(partition, member, fence)
    and redis.call('HGET', key('owned:' .. member), partition) == fence .. ' ' .. ARGV[i + 2]
  if held then
    redis.call('DEL', key('lock:' .. partition))
    end_grant(partition, {fence = fence, member = member}, 'released', now)
    released = true
  end
  answers[#answers + 1] = held and 1 or 0
end
if released then hint('released', member) end
return answers
