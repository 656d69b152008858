-- ARGV: member, secret (hex SHA-256), row (JSON of scalars), what it saw of another process under its instance name
-- ('': nothing yet), members that the group may have, joins that it takes in a second. Answers {'ok', incarnation,
-- mode_epoch, group_epoch, target_epoch, settings_epoch, identity, settings} as they are then, {'no_group'}
-- (never configured, or the Redis was wiped since), {'full'}, {'busy'} (too many joined this second), {'in_use', host}
-- (a live process has that id under another secret), or {'wait', seen, host, wait_ms}: a process before it may live.
-- Locks that the same process still holds stay: acquire answers them with their fences. So does what a
-- scale-down told its member.
local BEATS_AWAITED = 2 -- a live process gives a sign of life within so many heartbeats
local RENEWS_AWAITED = 1.2 -- and one whose heartbeats reach no dashboard with its renew
local member, secret, seen = ARGV[1], ARGV[2], ARGV[4]
if redis.call('HEXISTS', KEYS[1], 'settings') == 0 then return {'no_group'} end
local stored = redis.call('HGET', key('members'), member)
local before = row_of(stored)
if stored and not before then end_locks(member, 'expired') end -- it cannot be read: whoever joins is a new owner
local is_known = before ~= nil
before = before or {}
local now = now_ms()
local row = cjson.decode(ARGV[3])
if not stored and redis.call('HLEN', key('members')) >= tonumber(ARGV[5]) then return {'full'} end
local second, joins = text(math.floor(now / 1000)), 0
local counted_in, counted = string.match(redis.call('HGET', KEYS[1], 'joins') or '', '^(%d+) (%d+)$')
if counted_in == second then joins = tonumber(counted) end
if joins >= tonumber(ARGV[6]) then return {'busy'} end
redis.call('HSET', KEYS[1], 'joins', second .. ' ' .. text(joins + 1))
local away_since_ms = before['away_since_ms']

-- A new process is a new owner: whatever the one before held ends, and what it still asks is fenced.
if is_known and before['secret'] ~= secret then
  local host = before['host'] or ''
  if (row['instance'] or '') == '' or before['instance'] ~= row['instance'] then return {'in_use', host} end
  if not before['stopped'] then
    local beat = redis.call('ZSCORE', key('beats'), member)
    local there = process_of(before) .. ' ' .. beat
    local wait_ms = math.max(BEATS_AWAITED * setting('heartbeat_ms'), RENEWS_AWAITED * setting('renew_ms'))
    if seen ~= '' and seen ~= there then return {'in_use', host} end
    if seen == '' or now - tonumber(beat) < wait_ms then return {'wait', there, host, text(wait_ms)} end
    away_since_ms = away_since_ms or tonumber(beat)
  end
  end_locks(member, 'expired')
  hint('expired', member)
end

row['secret'] = secret
row['incarnation'] = math.max(row['incarnation'] or 0, before['incarnation'] or 0)
row['drain'] = before['drain']
row['joined_at_ms'] = away_since_ms and before['joined_at_ms'] or now
row['able'] = false
-- Until it is able again, or was awaited for too long, it counts as what it was (report.lua).
if away_since_ms then
  row['away_since_ms'] = away_since_ms
  row['able'], row['able_at_ms'], row['unserved'] = before['able'], before['able_at_ms'], before['unserved']
end
redis.call('HSET', key('members'), member, cjson.encode(row))
redis.call('ZADD', key('beats'), now, member)
forget_report(member)
redis.call('HSETNX', key('asked'), member, text(now)) -- once, over all its rejoins, until it answers
local is_as_before = row['zone'] == before['zone'] and row['capacity'] == before['capacity']
if away_since_ms and is_as_before then ask_look() else group_changed('join', member) end
local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'mode_epoch', 'group_epoch', 'target_epoch',
  'settings_epoch', 'identity', 'settings')
return {'ok', meta[1] or '0', meta[2] or '0', meta[3] or '0', meta[4] or '0', meta[5] or '0', meta[6] or '', meta[7]}
