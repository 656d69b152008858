-- ARGV: settings (JSON), rebalance_due ('1' when a plan depends on what changed), reason, identity of the group
-- ('' = as it is): by it an agent sees whether it reads the Redis of its dashboard; the settings_epoch over which
-- they are put ('' = any): of another one nothing is changed, its settings may be newer; who coordinates a group
-- that is made by this; '1': nothing is changed of one that has another identity.
-- Answers the group_epoch. Makes the group when it is not there.
-- Field by field: a refused commit or a sweep may have touched the hash before the group was made.
local first = {'coordination', ARGV[6], 'mode_epoch', '1', 'group_epoch', '0', 'target_epoch', '0',
  'coordinator_epoch', '0', 'settings_epoch', '0'}
if ARGV[5] ~= '' and ARGV[5] ~= (redis.call('HGET', KEYS[1], 'settings_epoch') or '0') then
  return redis.call('HGET', KEYS[1], 'group_epoch') or '0'
end
local identity = redis.call('HGET', KEYS[1], 'identity') or ''
if ARGV[7] == '1' and identity ~= '' and identity ~= ARGV[4] then
  return redis.call('HGET', KEYS[1], 'group_epoch') or '0'
end
for i = 1, #first, 2 do redis.call('HSETNX', KEYS[1], first[i], first[i + 1]) end
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'identity', ARGV[4]) end
if redis.call('HGET', KEYS[1], 'settings') ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'settings', ARGV[1])
  redis.call('HINCRBY', KEYS[1], 'settings_epoch', 1)
end
if ARGV[2] == '1' then group_changed(ARGV[3], '') else hint(ARGV[3], '') end
tell_all(ARGV[3])
return redis.call('HGET', KEYS[1], 'group_epoch')
