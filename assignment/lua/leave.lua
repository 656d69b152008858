-- ARGV: member, secret (hex SHA-256). Answers 'ok', or 'fenced' when it is not a member under that secret.
local stored = redis.call('HGET', key('members'), ARGV[1])
if not stored or cjson.decode(stored)['secret'] ~= ARGV[2] then return 'fenced' end
remove_member(ARGV[1], 'released', 'leave')
return 'ok'
