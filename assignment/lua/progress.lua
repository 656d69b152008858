-- What a consumer says of itself. ARGV: speaker, then name, value, ... Answers 1, or 0 when it is no member:
-- a consumer that was cut off leaves nothing behind.
local member = speaks_for(ARGV[1])
if not member then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', key('progress:' .. member), ARGV[i], ARGV[i + 1]) end
return 1
