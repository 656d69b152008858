-- ARGV: incarnation, run_id of the Redis for which it was chosen ('' = any), the last event that history has, then
-- name and highest known value of numbers in meta. Numbers and ids of events go on above them. Answers {'done' or
-- 'stale', the stored incarnation}. Only ever grows; remembers under which run of Redis it was set, so that a
-- restarted Redis grants nothing before it is raised. One that was chosen before the restart is too low for a Redis
-- that was wiped by it: refused, whatever is stored.
local stored = tonumber(redis.call('HGET', KEYS[1], 'incarnation') or '0')
local another_run = ARGV[2] ~= '' and ARGV[2] ~= run_id()
if another_run or tonumber(ARGV[1]) <= stored then return {'stale', text(stored)} end
redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], 'run_id', run_id(), 'incarnation_at_ms', text(now_ms()))
lift(key('events'), ARGV[3]) -- by a clock that is behind new ones would count as stored
for i = 4, #ARGV, 2 do lift_number(ARGV[i], ARGV[i + 1]) end
redis.call('HINCRBY', KEYS[1], 'coordinator_epoch', 1) -- whoever read before stores nothing
-- The stored target may be one that was replaced since: a new one is due, above all that is known.
if stored > 0 then group_changed('incarnation', '') else hint('incarnation', '') end
tell_all('incarnation')
return {'done', ARGV[1]}
