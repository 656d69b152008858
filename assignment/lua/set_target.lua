-- ARGV: coordinator_epoch, mode_epoch, group_epoch, incarnation and run_id that were read, the target's record
-- (text, '' = none), able members that it leaves out (a space between two), the reason for which this target
-- raises the group_epoch by one ('' = it was raised before), then member, row (JSON) ... The record waits in `outbox` until the database has it; where none comes, the oldest go, and are counted.
-- Answers {'done', target_epoch} (also when this run of the coordinator did it before: its reply was lost) or
-- {'stale', reason}. Writes a row for every present member; `nothing` is the row of one that came after the
-- read (ARGV has no row for it). Told is whose row has other partitions than before; all are, when many have, or
-- the incarnation is another. A learner that this target places is to say ready anew, even when its
-- member never heard of the target in between that did not have it.
local CALLED_FROM = 4 -- of so many members one: a call to all reaches at most so many times those who are concerned
local OUTBOX_MAX, OUTBOX_BYTES = 1000, 67108864 -- about, and at least one: a large group's record has a megabyte
local meta = redis.call('HMGET', KEYS[1], 'coordinator_epoch', 'mode_epoch', 'target_epoch', 'group_epoch',
  'target_run', 'incarnation', 'run_id')
local run = run_id()
if (meta[6] or '0') ~= ARGV[4] or run ~= ARGV[5] then return {'stale', 'Redis may have lost writes'} end
if meta[6] and meta[7] ~= run then return {'stale', 'the incarnation is not raised yet'} end
if meta[1] ~= ARGV[1] then return {'stale', 'another coordinator runs'} end
if meta[2] ~= ARGV[2] then return {'stale', 'the mode changed'} end
if meta[5] == ARGV[1] and meta[3] == ARGV[3] then return {'done', ARGV[3]} end
if tonumber(ARGV[3]) <= tonumber(meta[3]) then return {'stale', 'nothing changed'} end
local raised = ARGV[8] ~= ''
if raised and tonumber(ARGV[3]) ~= tonumber(meta[4]) + 1 then return {'stale', 'the group changed'} end
if not raised and tonumber(ARGV[3]) > tonumber(meta[4]) then return {'stale', 'the group was made anew'} end
local nothing = '{"target_epoch":' .. ARGV[3] .. ',"incarnation":' .. ARGV[4]
  .. ',"active":[],"standby":[],"learning":[]}'
local rows = {}
for i = 9, #ARGV, 2 do rows[ARGV[i]] = ARGV[i + 1] end

local function learning(row)
  local found = {}
  for _, partition in ipairs(row and cjson.decode(row)['learning'] or {}) do found[partition] = true end
  return found
end
local function forget_ready(member)
  local row = row_of(redis.call('HGET', key('members'), member))
  if not row or (row['ready'] or '') == '' then return end
  local placed, before = learning(rows[member]), learning(redis.call('HGET', key('target'), member))
  local kept = {}
  for partition in string.gmatch(row['ready'], '%S+') do
    if before[partition] or not placed[partition] then kept[#kept + 1] = partition end
  end
  row['ready'] = table.concat(kept, ' ')
  redis.call('HSET', key('members'), member, cjson.encode(row))
end

if raised then group_changed(ARGV[8], '') end
local members = redis.call('HKEYS', key('members'))
for _, member in ipairs(members) do
  local row = rows[member]
  if row and not string.find(row, '"learning":[]', 1, true) then forget_ready(member) end
end
local function partitions_of(row) return row and string.match(row, '"active".*') end
local changed = {}
for _, member in ipairs(members) do
  local row, before = rows[member] or nothing, redis.call('HGET', key('target'), member)
  if partitions_of(row) ~= partitions_of(before) then changed[#changed + 1] = member end
end
redis.call('DEL', key('target'))
for _, member in ipairs(members) do
  redis.call('HSET', key('target'), member, rows[member] or nothing)
end
local is_of_before = redis.call('HGET', KEYS[1], 'target_incarnation') ~= ARGV[4]
if is_of_before or #changed * CALLED_FROM > #members then
  tell_all('target')
else
  for _, member in ipairs(changed) do tell(member, 'target') end
end
local now = text(now_ms())
redis.call('HSET', KEYS[1], 'target_epoch', ARGV[3], 'target_incarnation', ARGV[4], 'target_run', ARGV[1],
  'target_at_ms', now, 'due_since_ms', now, 'left_out', ARGV[7])
if ARGV[6] ~= '' then
  local most = math.floor(math.min(OUTBOX_MAX, math.max(1, OUTBOX_BYTES / #ARGV[6])))
  local waited = redis.call('XLEN', key('outbox'))
  redis.call('XADD', key('outbox'), 'MAXLEN', '~', most, '*',
    'incarnation', ARGV[4], 'epoch', ARGV[3], 'record', ARGV[6])
  local lost = waited + 1 - redis.call('XLEN', key('outbox'))
  if lost > 0 then redis.call('HINCRBY', KEYS[1], 'records_lost', lost) end
end
hint('target', '')
return {'done', ARGV[3]}
