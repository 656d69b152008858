-- ARGV: incarnation. Answers {'done' or 'stale', the stored incarnation}. Only ever grows; remembers
-- under which run of Redis it was set, so that a restarted Redis grants nothing before it is raised.
local stored = tonumber(redis.call('HGET', KEYS[1], 'incarnation') or '0')
if tonumber(ARGV[1]) <= stored then return {'stale', text(stored)} end
redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], 'run_id', run_id())
hint('incarnation', '')
return {'done', ARGV[1]}
