-- A heartbeat. ARGV: member, secret (hex SHA-256), number of its last complete report, sequence (grows with
-- every heartbeat of that process), kind ('complete' or 'changes'), payload (JSON), able ('1'/'0'), leaving
-- ('1'/'0'), incarnation and epoch of the target that the agent has stored, ready learners (partitions,
-- sorted, a space between two), partitions that it cannot serve (in the same form), bytes that the reports of all
-- members together may have, the incarnation that it saw, mode_epoch and settings_epoch under that.
-- Answers {'fenced'} and touches nothing when it is not a member, {'late'} when a newer one was here (a sign
-- of life all the same), {'large'} (so is this one: nothing of it is kept), else {'ok', incarnation, mode_epoch, group_epoch, target_epoch, settings_epoch,
-- wants a complete report '1'/'0', target row or '', rebalance_due '1'/'0' (a plan depends on what changed, or
-- waited for this report), drain, identity, settings or '' (the agent has these)}.
local member = ARGV[1]
local stored = redis.call('HGET', key('members'), member)
local row = row_of(stored)
if not row or row['secret'] ~= ARGV[2] then return {'fenced'} end
local now = now_ms()
local at = text(now)
redis.call('ZADD', key('beats'), at, member)

-- reports[member] is the text "number sequence at_ms length <complete><changes>"; an older sequence (a
-- request that was late or sent twice) never replaces a newer one.
local wants = '0'
local before = redis.call('HGET', key('reports'), member) or ''
local number, sequence, length, rest = string.match(before, '^(%d+) (%d+) %d+ (%d+) (.*)$')
local complete, changes
if sequence and tonumber(sequence) >= tonumber(ARGV[4]) then
  return {'late'}
elseif ARGV[5] == 'complete' then
  complete, changes = ARGV[6], '{}'
elseif number == ARGV[3] then
  complete, changes = string.sub(rest, 1, tonumber(length)), ARGV[6]
  if redis.call('HEXISTS', key('asked'), member) == 1 then wants = '1' end
else
  wants = '1'
  redis.call('HSETNX', key('asked'), member, at)
end
if complete then
  local report = ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. at .. ' ' .. #complete .. ' ' .. complete .. changes
  local grows = #report - #before
  if grows > 0
      and tonumber(redis.call('HGET', KEYS[1], 'reports_bytes') or '0') + grows > tonumber(ARGV[13]) then
    return {'large'}
  end
  redis.call('HSET', key('reports'), member, report)
  if grows ~= 0 then redis.call('HINCRBY', KEYS[1], 'reports_bytes', grows) end
end
local answered = ARGV[5] == 'complete' and redis.call('HDEL', key('asked'), member) == 1

local able, leaving = ARGV[7] == '1', ARGV[8] == '1'
local reason
-- The process before it stopped or died: while this one starts nothing of its member moves, for so long.
local away_since_ms, was_away = row['away_since_ms'], false
if away_since_ms then -- rarely
  if not able and not leaving and now - away_since_ms <= instance_timeout_ms() then
    able = row['able']
  else
    row['away_since_ms'], was_away = nil, true
  end
end
if row['able'] ~= able or (row['leaving'] or false) ~= leaving then
  reason = leaving and 'leaving' or able and 'able' or 'unable'
  if able and not row['able'] then row['able_at_ms'] = now end
end
local ready_before = row['ready'] or ''
local unserved_before = row['unserved'] or ''
if unserved_before ~= ARGV[12] then reason = reason or 'unserved' end
if ready_before ~= ARGV[11] then
  local known = {}
  for partition in string.gmatch(ready_before, '%S+') do known[partition] = true end
  for partition in string.gmatch(ARGV[11], '%S+') do
    if not known[partition] then reason = reason or 'ready' end
  end
end
if reason or was_away or ready_before ~= ARGV[11] then
  row['able'] = able
  row['leaving'] = leaving
  row['ready'] = ARGV[11]
  row['unserved'] = ARGV[12]
  redis.call('HSET', key('members'), member, cjson.encode(row))
end
if reason then -- rarely
  group_changed(reason, member)
end
if before == '' then -- rarely
  ask_look() -- only now it has come: stays.py
end

local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'mode_epoch', 'group_epoch', 'target_epoch',
  'settings_epoch', 'target_incarnation', 'identity')
local is_current = meta[1] == ARGV[14] and meta[2] == ARGV[15] and meta[5] == ARGV[16]
  and meta[6] == ARGV[9] and meta[4] == ARGV[10]
local target, settings = '', ''
-- Redis may have lost what it saw (incarnation.py).
if not is_current then -- rarely
  local function is_ahead(said, stored) return tonumber(said) > tonumber(stored or '0') end
  local same = ARGV[14] == (meta[1] or '0')
  if is_ahead(ARGV[14], meta[1]) or (same and (is_ahead(ARGV[15], meta[2]) or is_ahead(ARGV[16], meta[5])))
      or (ARGV[9] == (meta[1] or '0') and is_ahead(ARGV[10], meta[3])) then
    ask_look()
  end
  if (meta[6] or '0') ~= ARGV[9] or meta[4] ~= ARGV[10] then
    target = redis.call('HGET', key('target'), member) or ''
  end
  if not same or (meta[5] or '0') ~= ARGV[16] then
    settings = redis.call('HGET', KEYS[1], 'settings') or ''
  end
end
local due = reason or answered and tonumber(meta[3] or '0') > tonumber(meta[4] or '0')
return {'ok', meta[1] or '0', meta[2] or '0', meta[3] or '0', meta[4] or '0', meta[5] or '0', wants,
  target, due and '1' or '0', row['drain'] or '', meta[7] or '', settings}
