-- ARGV: member, secret (hex SHA-256), row (JSON of scalars). Answers 'ok', 'in_use' (a live id under another
-- secret) or 'no_group' (never configured, or the Redis was wiped since).
-- Locks that the same member still holds stay: acquire answers them with their fences. So does what a
-- scale-down told it.
local member, secret = ARGV[1], ARGV[2]
if redis.call('HEXISTS', KEYS[1], 'settings') == 0 then return 'no_group' end
local stored = redis.call('HGET', key('members'), member)
local before = stored and cjson.decode(stored) or {}
if stored and before['secret'] ~= secret then return 'in_use' end
local now = now_ms()
local row = cjson.decode(ARGV[3])
row['secret'] = secret
row['joined_at_ms'] = now
row['able'] = false
row['drain'] = before['drain']
redis.call('HSET', key('members'), member, cjson.encode(row))
redis.call('ZADD', key('beats'), now, member)
redis.call('HDEL', key('reports'), member)
redis.call('HSETNX', key('asked'), member, text(now)) -- once, over all its rejoins, until it answers
group_changed('join', member)
return 'ok'
