-- Everything a coordinator decides from, at one moment. ARGV: purpose ('rebalance' takes a new coordinator_epoch
-- first, 'tick' stores the time of the tick, 'look' changes nothing); for 'tick': from and until when nobody ticked
-- at all the last time, when the ticker gave its last sign of life (0: unknown), until when that holds, and '1'
-- when it is a dashboard's; then how many grants there may be (none: any number), or 'apart' for whoever asks the
-- rows beside it. Where there are more it changes nothing.
-- Answers {now_ms, run_id, meta, members, beats, reports, asked, target, grants, locks, offsets, applied, snapshots,
-- pauses, paused, ends}, each as flat name, value lists; but of the locks pieces of some grants each, in their order:
-- "member/fence" (it ends at the grant's until_ms) or nil. For 'rebalance' no offsets and snapshots, and
-- applied only where the strategy's weights are "measured" (weighted_sticky). Where there are more grants than there
-- may be: {'large', settings, names of the hashes to ask apart}.
local GAPS_KEPT = 8 -- of the times in which a sign of life may have been missed
local now, run = now_ms(), run_id()

local settings_text = redis.call('HGET', KEYS[1], 'settings') or ''
local rows = {'grants'}
if ARGV[1] ~= 'rebalance' then
  rows = {'grants', 'offsets', 'applied', 'snapshots'}
elseif string.find(settings_text, '"measured"', 1, true) then
  rows = {'grants', 'applied'}
end
local is_apart = ARGV[7] == 'apart'
local most = tonumber(ARGV[7])
if most and settings_text ~= '' and redis.call('HLEN', key('grants')) > most then
  return {'large', settings_text, rows}
end

-- The clock was set back: what is set by it lies in the future, and is valid from now on for no longer than its
-- own time. Who renewed since is right already. A live lock ends at most a lease after its holder's last beat,
-- so where no beat lies in the future no lock does.
local function cap(name, most)
  local stored = redis.call('HGET', KEYS[1], name)
  if stored and tonumber(stored) > most then redis.call('HSET', KEYS[1], name, text(most)) end
end
local function cap_locks(lease_ms)
  local rows = redis.call('HGETALL', key('grants'))
  for i = 1, #rows, 2 do
    local grant = grant_of(rows[i])
    if grant.ended == '-' and grant.until_ms > now + lease_ms and holds(rows[i], grant.member, grant.fence) then
      set_lock(rows[i], grant.member, grant.fence, now + lease_ms)
    end
  end
end
local function cap_future(members_ahead)
  for _, name in ipairs({'tick_ms', 'served_ms', 'incarnation_at_ms', 'target_at_ms', 'due_since_ms'}) do
    cap(name, now)
  end
  redis.call('HDEL', KEYS[1], 'away') -- every session begins now
  for _, member in ipairs(members_ahead) do
    redis.call('ZADD', key('beats'), text(now), member)
  end
  local asked = redis.call('HGETALL', key('asked'))
  for i = 1, #asked, 2 do
    if tonumber(asked[i + 1]) > now then redis.call('HSET', key('asked'), asked[i], text(now)) end
  end
  local members = redis.call('HGETALL', key('members'))
  for i = 1, #members, 2 do
    local row = row_of(members[i + 1]) or {}
    local capped = false
    for _, name in ipairs({'able_at_ms', 'away_since_ms'}) do
      if (row[name] or 0) > now then row[name], capped = now, true end
    end
    if capped then redis.call('HSET', key('members'), members[i], cjson.encode(row)) end
  end
  if settings_text ~= '' then cap_locks(cjson.decode(settings_text)['lease_ms']) end
end

if ARGV[1] == 'rebalance' then
  redis.call('HINCRBY', KEYS[1], 'coordinator_epoch', 1)
elseif ARGV[1] == 'tick' then
  local meta = redis.call('HMGET', KEYS[1], 'tick_ms', 'tick_run', 'away')
  local ahead = redis.call('ZRANGEBYSCORE', key('beats'), '(' .. text(now), '+inf')
  if tonumber(meta[1] or '0') > now or #ahead > 0 then
    cap_future(ahead)
    meta[3] = nil
  end
  local last = math.min(tonumber(meta[1] or now), now)
  local from, till = tonumber(ARGV[2]), tonumber(ARGV[3])
  if till > now then from, till = 0, 0 end -- by the clock before it was set back
  if now > tonumber(ARGV[5]) and ARGV[4] ~= '0' then from, till = tonumber(ARGV[4]), now end -- meanwhile
  if meta[2] ~= run then from, till = last, now end -- started since, or made anew
  if till > last or meta[2] ~= run then
    local gaps = {text(math.max(from, last)) .. '-' .. text(till)}
    for gap in string.gmatch(meta[3] or '', '%S+') do
      if #gaps < GAPS_KEPT then gaps[#gaps + 1] = gap end
    end
    redis.call('HSET', KEYS[1], 'away', table.concat(gaps, ' '))
  end
  redis.call('HSET', KEYS[1], 'tick_ms', text(now), 'tick_run', run)
  if ARGV[6] == '1' then redis.call('HSET', KEYS[1], 'served_ms', text(now)) end
end
local reports = redis.call('HGETALL', key('reports'))
if ARGV[1] == 'tick' then -- an older version, or whoever writes beside the scripts, counts nothing
  local bytes = 0
  for i = 2, #reports, 2 do bytes = bytes + #reports[i] end
  if (redis.call('HGET', KEYS[1], 'reports_bytes') or '0') ~= text(bytes) then
    redis.call('HSET', KEYS[1], 'reports_bytes', text(bytes))
  end
end

local found = {}
for _, name in ipairs(is_apart and {} or rows) do found[name] = redis.call('HGETALL', key(name)) end
local grants, locks, lock = found['grants'] or {}, {}, key('lock:')
for first = 1, #grants, 2 * PART do
  local names = {}
  for i = first, math.min(first + 2 * PART, #grants) - 1, 2 do
    names[#names + 1] = lock .. grants[i]
  end
  locks[#locks + 1] = redis.call('MGET', unpack(names))
end
return {text(now), run, redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', key('members')),
  redis.call('ZRANGE', key('beats'), 0, -1, 'WITHSCORES'), reports,
  redis.call('HGETALL', key('asked')), redis.call('HGETALL', key('target')), grants, locks,
  found['offsets'] or {}, found['applied'] or {}, found['snapshots'] or {}, redis.call('HGETALL', key('pauses')),
  redis.call('HGETALL', key('paused')), redis.call('ZRANGE', key('ends'), 0, -1, 'WITHSCORES')}
