-- ARGV: member, then partition, fence, expected state, new state, ... Answers 1 or 0 per partition.
-- Compare-and-set on fence and state in owned:<member>.
local owned = key('owned:' .. ARGV[1])
local answers = {}
for i = 2, #ARGV, 4 do
  local same = redis.call('HGET', owned, ARGV[i]) == ARGV[i + 1] .. ' ' .. ARGV[i + 2]
  if same then redis.call('HSET', owned, ARGV[i], ARGV[i + 1] .. ' ' .. ARGV[i + 3]) end
  answers[#answers + 1] = same and 1 or 0
end
return answers
