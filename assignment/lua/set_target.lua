-- ARGV: coordinator_epoch, mode_epoch, group_epoch that was read, then member, row (JSON) ...
-- Answers {'done', target_epoch} (also when this run of the coordinator did it before: its reply was lost) or
-- {'stale', reason}. Writes a row for every present member; `nothing` is the row of one that came after the
-- read (ARGV has no row for it).
local meta = redis.call('HMGET', KEYS[1], 'coordinator_epoch', 'mode_epoch', 'target_epoch', 'group_epoch',
  'target_run')
if meta[1] ~= ARGV[1] then return {'stale', 'another coordinator runs'} end
if meta[2] ~= ARGV[2] then return {'stale', 'the mode changed'} end
if meta[5] == ARGV[1] and meta[3] == ARGV[3] then return {'done', ARGV[3]} end
if tonumber(ARGV[3]) <= tonumber(meta[3]) then return {'stale', 'nothing changed'} end
if tonumber(ARGV[3]) > tonumber(meta[4]) then return {'stale', 'the group was made anew'} end
local nothing = '{"target_epoch":' .. ARGV[3] .. ',"active":[],"standby":[],"learning":[]}'
local rows = {}
for i = 4, #ARGV, 2 do rows[ARGV[i]] = ARGV[i + 1] end
redis.call('DEL', key('target'))
for _, member in ipairs(redis.call('HKEYS', key('members'))) do
  redis.call('HSET', key('target'), member, rows[member] or nothing)
end
redis.call('HSET', KEYS[1], 'target_epoch', ARGV[3], 'target_run', ARGV[1], 'target_at_ms',
  text(now_ms()))
hint('target', '')
return {'done', ARGV[3]}
