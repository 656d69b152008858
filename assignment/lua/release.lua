-- ARGV: member, then partition, fence, expected state, ... Answers per partition 1 (released now) or 0 (not ours any
-- more, or in another state: one that arrives late must not take what was given back meanwhile).
local member = ARGV[1]
local now = now_ms()
local answers, names, asked, released = {}, {}, {}, false
for i = 2, #ARGV, 3 do
  names[#names + 1] = ARGV[i]
  asked[#asked + 1] = {fence = ARGV[i + 1], state = ARGV[i + 2]}
end
for _, part in ipairs(parts_of(names)) do
  local locks = redis.call('MGET', unpack(locks_of(part)))
  local owned = redis.call('HMGET', key('owned:' .. member), unpack(part))
  local held, fences, is_given = {}, {}, {}
  for i, partition in ipairs(part) do
    local one = asked[#answers + 1]
    local is_held = locks[i] == member .. '/' .. one.fence and owned[i] == one.fence .. ' ' .. one.state
    if is_held and not is_given[partition] then
      held[#held + 1], fences[#fences + 1] = partition, one.fence
      is_given[partition] = true
      answers[#answers + 1] = 1
    else
      answers[#answers + 1] = 0
    end
  end
  end_held(member, held, fences, 'released', now)
  released = released or #held > 0
end
if released then hint('released', member) end
return answers
