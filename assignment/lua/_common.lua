-- Put before every script of a group, as far as it uses it (lua/__init__.py). KEYS[1] is always the group's meta key; all other keys share its slot.
local prefix = string.sub(KEYS[1], 1, -5)
local EVENTS_MAX = 1000000
local CONTROL_MAX = 1000
local TOLD_MAX, TOLD_FOR_MS = 100, 60000
local REFUSED_MAX = 10000

local function key(name) return prefix .. name end

-- A script happens at one moment: before Redis 7 TIME goes on while a script runs, and what one script wrote
-- twice would differ.
local moment
local function now_ms()
  if not moment then
    local time = redis.call('TIME')
    moment = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  end
  return moment
end

-- Which run of which server this is: a restarted one has another run_id, and one that was promoted, also
-- back into the role that it had before, another replication id. What the server says of its offset tells
-- nothing more: it comes back with the data, and stands still without a replica (Redis 6.2). A data set that
-- went back under the same identity is found by the numbers that database and members remember.
local function run_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') .. '/' .. replication_id()
end

local function record_each(kind, partitions, member, fences, at_ms)
  local before = redis.call('HINCRBY', KEYS[1], 'event_seq', #partitions) - #partitions
  local events, at = key('events'), text(at_ms)
  for i, partition in ipairs(partitions) do
    redis.call('XADD', events, 'MAXLEN', '~', EVENTS_MAX, '*', 'seq', text(before + i), 'type', kind,
      'partition', partition, 'member', member, 'fence', fences[i], 'at_ms', at)
  end
end
local function record(kind, partition, member, fence, at_ms)
  record_each(kind, {partition}, member, {fence}, at_ms)
end

-- Whom a change concerns hears of it at once: a member in a stream of its own, in `calls` all of them. An event is
-- told to as few as it concerns, however large the group is. Whoever misses it reads the same with its next renew.
local told = {}
local function tell(member, reason)
  local name = key('hints:' .. member)
  if told[name .. ' ' .. reason] then return end
  told[name .. ' ' .. reason] = true
  redis.call('XADD', name, 'MAXLEN', '~', TOLD_MAX, '*', 'reason', reason)
  redis.call('PEXPIRE', name, TOLD_FOR_MS)
end
-- How many hear of it says when each of them acts on it (member/pacing.py).
local function tell_all(reason)
  redis.call('XADD', key('calls'), 'MAXLEN', '~', CONTROL_MAX, '*',
    'members', redis.call('HLEN', key('members')), 'reason', reason)
end

-- `control` has every change once, whoever is told of it: why a rebalance is due, and what older agents listen to.
local function hint(reason, member)
  redis.call('XADD', key('control'), 'MAXLEN', '~', CONTROL_MAX, '*', 'reason', reason,
    'epoch', redis.call('HGET', KEYS[1], 'group_epoch') or '0', 'member', member)
end

-- Where the agents coordinate, the one that computes is told.
-- due_since_ms: when the rebalance that is due became so; a wait of the whole group is counted from there.
local function group_changed(reason, member)
  local meta = redis.call('HMGET', KEYS[1], 'group_epoch', 'target_epoch')
  if (meta[1] or '0') == (meta[2] or '0') then
    redis.call('HSET', KEYS[1], 'due_since_ms', text(now_ms()))
  end
  redis.call('HINCRBY', KEYS[1], 'group_epoch', 1)
  hint(reason, member)
  local computes = redis.call('GET', key('coordinator'))
  if computes then tell(computes, reason) end
end

-- A number in meta goes on above what is known of it.
local function lift_number(name, known)
  if tonumber(redis.call('HGET', KEYS[1], name) or '0') < tonumber(known) then
    redis.call('HSET', KEYS[1], name, known)
  end
end

-- A grant is the text "fence member until_ms ended"; ended is -, released or expired.
local function read_grant(value)
  local fence, member, until_ms, ended = string.match(value, '^(%d+) (%S+) (%d+) (%S+)$')
  return {fence = fence, member = member, until_ms = tonumber(until_ms), ended = ended}
end
local function grant_text(fence, member, until_ms, ended)
  return fence .. ' ' .. member .. ' ' .. until_ms .. ' ' .. ended
end
local function grant_of(partition)
  local value = redis.call('HGET', key('grants'), partition)
  return value and read_grant(value) or nil
end

local function store_grant(partition, grant)
  redis.call('HSET', key('grants'), partition,
    grant_text(grant.fence, grant.member, text(grant.until_ms), grant.ended))
end

-- What a consumer may read: partition -> "fence state" in owned:<member>; forgotten only with its fence.
local function forget_owned(partition, grant)
  local owned = redis.call('HGET', key('owned:' .. grant.member), partition)
  if owned and string.match(owned, '^(%d+) ') == grant.fence then
    redis.call('HDEL', key('owned:' .. grant.member), partition)
  end
end

-- For a tick that reads these two and looks at nothing else (coordinator/resting.py). Grows when there is something
-- to look at that no other number in meta tells.
local function ask_look() redis.call('HINCRBY', KEYS[1], 'looks_due', 1) end

-- ends has for a member a moment before which none of its locks ends; renew.lua moves it on.
local function lower_end(member, until_ms)
  local known = redis.call('ZSCORE', key('ends'), member)
  if not known or tonumber(known) > until_ms then redis.call('ZADD', key('ends'), text(until_ms), member) end
end

-- The lock ends at until_ms to the millisecond: the history is exact without asking for the time left.
local function set_lock(partition, member, fence, until_ms)
  redis.call('SET', key('lock:' .. partition), member .. '/' .. fence, 'PXAT', text(until_ms))
  lower_end(member, until_ms)
  store_grant(partition, {fence = fence, member = member, until_ms = until_ms, ended = '-'})
end

local function holds(partition, member, fence)
  return redis.call('GET', key('lock:' .. partition)) == member .. '/' .. fence
end

-- awaited: partition -> the member that was refused its lock last. Of a group's members one at a time asks for it,
-- the one to which the target gives it.
local function tell_awaiting(partition, kind)
  local member = redis.call('HGET', key('awaited'), partition)
  if member then tell(member, kind) end
end

local function end_grant(partition, grant, kind, at_ms)
  grant.ended = kind
  grant.until_ms = at_ms
  store_grant(partition, grant)
  forget_owned(partition, grant)
  record(kind, partition, grant.member, grant.fence, at_ms)
  tell_awaiting(partition, kind)
end

local PART = 1000 -- partitions of one command; unpack has a limit of about 8,000
local function parts_of(names)
  local parts = {}
  for first = 1, #names, PART do
    parts[#parts + 1] = {unpack(names, first, math.min(first + PART - 1, #names))}
  end
  return parts
end
local function locks_of(partitions)
  local names, lock = {}, key('lock:')
  for i, partition in ipairs(partitions) do names[i] = lock .. partition end
  return names
end

-- The same as end_grant for each that a member holds, under its live lock and as `owned` has it; the calls around it
-- are shared. A part at most.
local function end_held(member, partitions, fences, kind, at_ms)
  if #partitions == 0 then return end
  local grants, at = {}, text(at_ms)
  for i, partition in ipairs(partitions) do
    grants[2 * i - 1], grants[2 * i] = partition, grant_text(fences[i], member, at, kind)
  end
  redis.call('DEL', unpack(locks_of(partitions)))
  redis.call('HSET', key('grants'), unpack(grants))
  redis.call('HDEL', key('owned:' .. member), unpack(partitions))
  record_each(kind, partitions, member, fences, at_ms)
  for _, awaiting in ipairs(redis.call('HMGET', key('awaited'), unpack(partitions))) do
    if awaiting then tell(awaiting, kind) end
  end
end

local function setting(name)
  return cjson.decode(redis.call('HGET', KEYS[1], 'settings'))[name]
end

-- A member's row as it is stored; nil when it cannot be read, or there is none.
local function row_of(stored)
  local fine, row = pcall(cjson.decode, stored or '')
  if not fine or type(row) ~= 'table' or type(row['secret']) ~= 'string'
      or type(row['host'] or '') ~= 'string' or type(row['instance'] or '') ~= 'string'
      or type(row['ready'] or '') ~= 'string' or type(row['unserved'] or '') ~= 'string'
      or type(row['drain'] or '') ~= 'string' or type(row['incarnation'] or 0) ~= 'number'
      or type(row['able_at_ms'] or 0) ~= 'number' or type(row['away_since_ms'] or 0) ~= 'number' then
    return nil
  end
  return row
end

-- For so long nothing moves of a member whose instance is expected back. Older settings do not have it.
local function instance_timeout_ms()
  return setting('instance_timeout_ms') or setting('session_timeout_ms')
end

-- A process by which Redis knows it: of the hex SHA-256 of its secret.
local PROCESS_LENGTH = 12
local function process_of(row) return row and string.sub(row['secret'], 1, PROCESS_LENGTH) end

-- The member for which a process speaks: "member", or "member@process" under an instance name, which another
-- process may have by now. Nil when it is no member (any more). The row is searched, not read: what is looked
-- for can be inside of none of its texts, whose quotes are escaped.
local function speaks_for(speaker)
  local member, process = string.match(speaker, '^([^@]+)@?(.*)$')
  local stored = redis.call('HGET', key('members'), member)
  if not stored then return nil end
  if process ~= '' and (#process ~= PROCESS_LENGTH or not string.find(stored, '"secret":"' .. process, 1, true)) then
    return nil
  end
  return member
end

-- What keeps a partition from being planned: its own pause before that of the whole group, with who, when and why
-- (JSON). Nil when nothing does.
local function pause_of(partition)
  for _, scope in ipairs({partition, '*'}) do
    local record = redis.call('HGET', key('pauses'), scope)
    if record then return scope, record end
  end
end

-- How far the pause of a partition is, for whoever may touch it only while it stands still; nil: it is not paused.
-- 'paused': its owner asked for a batch since, when none held it, and was given none of it; it is told none
-- under that fence until the pause ends. 'pausing': its owner did not ask yet, so a batch of it may be in hand, or
-- it is of a version that knows no pause. 'unowned': nobody has its lock. A consumer that lost it may still hold a
-- batch, and a call that came late may have ended one too early: whoever changes what a commit compares grants a
-- new fence in the same script, which refuses both.
local function pause_state(partition)
  if not pause_of(partition) then return nil end
  local grant = grant_of(partition)
  if not grant or grant.ended ~= '-' or not holds(partition, grant.member, grant.fence) then return 'unowned' end
  return redis.call('HGET', key('paused'), partition) == grant.fence and 'paused' or 'pausing'
end

-- Its locks end (a live one now, a lost one when it ran out), and what its consumer said goes.
local function end_locks(member, kind)
  local now = now_ms()
  for _, part in ipairs(parts_of(redis.call('HKEYS', key('owned:' .. member)))) do
    local locks = redis.call('MGET', unpack(locks_of(part)))
    local held, fences = {}, {}
    for i, stored in ipairs(redis.call('HMGET', key('grants'), unpack(part))) do
      local grant = stored and read_grant(stored)
      if grant and grant.member == member and grant.ended == '-' then
        if locks[i] == member .. '/' .. grant.fence then
          held[#held + 1] = part[i]
          fences[#fences + 1] = grant.fence
        else
          end_grant(part[i], grant, 'expired', math.min(grant.until_ms, now))
        end
      end
    end
    end_held(member, held, fences, kind, now)
  end
  redis.call('DEL', key('owned:' .. member), key('progress:' .. member))
  redis.call('ZREM', key('ends'), member)
end

-- What its member said last. reports_bytes in meta is the size of all reports together.
local function forget_report(member)
  local length = redis.call('HSTRLEN', key('reports'), member)
  if length > 0 then
    redis.call('HDEL', key('reports'), member)
    redis.call('HINCRBY', KEYS[1], 'reports_bytes', -length)
  end
end

-- Every way out of a group: its locks end, its rows go.
local function remove_member(member, kind, reason)
  end_locks(member, kind)
  for _, name in ipairs({'members', 'asked', 'target'}) do
    redis.call('HDEL', key(name), member)
  end
  forget_report(member)
  redis.call('ZREM', key('beats'), member)
  group_changed(reason, member)
end
