-- What a consumer says of itself. ARGV: member, then name, value, ... Answers 1, or 0 when it is no member:
-- a consumer that was cut off leaves nothing behind.
if redis.call('HEXISTS', key('members'), ARGV[1]) == 0 then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', key('progress:' .. ARGV[1]), ARGV[i], ARGV[i + 1]) end
return 1
