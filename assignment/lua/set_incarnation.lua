-- ARGV: incarnation, run_id of the Redis for which it was chosen ('' = any). Answers {'done' or 'stale', the
-- stored incarnation}. Only ever grows; remembers under which run of Redis it was set, so that a restarted
-- Redis grants nothing before it is raised. One that was chosen before the restart is too low for a Redis
-- that was wiped by it: refused, whatever is stored.
local stored = tonumber(redis.call('HGET', KEYS[1], 'incarnation') or '0')
local another_run = ARGV[2] ~= '' and ARGV[2] ~= run_id()
if another_run or tonumber(ARGV[1]) <= stored then return {'stale', text(stored)} end
redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], 'run_id', run_id())
hint('incarnation', '')
return {'done', ARGV[1]}
