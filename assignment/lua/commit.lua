-- The fenced commit. ARGV: partition, member, fence, from, to, events in (from, to] (malformed ones too),
-- base (events applied when there is no offset yet), write a changelog entry ('1'/'0'), packed changes,
-- packed event ids ('' = none), replication id under which it was planned ('' = any), the fence under which the sink
-- applied it already, where this brings Redis there ('0': it does not), dead letters: reason, entry id, index ('' = the
-- whole entry), raw ...
-- One that ends where bound letters do (bind.lua) settles them in the same step.
-- Answers {'done' | 'already', committed offset, changelog id or ''}, {'moved', committed offset} (also when
-- this server lacks what another one had when it was planned) or {'fenced', last granted fence}.
local partition, member, fence, from, to = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local grant = grant_of(partition)
if not grant or grant.fence ~= fence then
  redis.call('HINCRBY', KEYS[1], 'refused_commits', 1)
  if redis.call('HLEN', key('refused')) >= REFUSED_MAX then redis.call('DEL', key('refused')) end
  if redis.call('HINCRBY', key('refused'), partition .. ' ' .. fence, 1) == 1 then
    record('fenced', partition, member, fence, now_ms())
  end
  return {'fenced', grant and grant.fence or '0'}
end
local committed = redis.call('HGET', key('offsets'), partition)
if from == to then return {'moved', committed or '0-0'} end -- a commit of nothing only asks
local changelog = key('changelog:' .. partition)
if (committed or '0-0') ~= from then
  if committed ~= to then return {'moved', committed or '0-0'} end
  local last = redis.call('XREVRANGE', changelog, '+', '-', 'COUNT', 1)[1]
  return {'already', committed, ARGV[8] == '1' and last and last[1] or ''}
end
local server = replication_id()
if ARGV[11] ~= '' and ARGV[11] ~= server then return {'moved', committed or '0-0'} end
local applied = committed and redis.call('HGET', key('applied'), partition)
local base = applied and string.match(applied, '^(%d+) ') or ARGV[7]
local total = text(tonumber(base) + tonumber(ARGV[6]))

-- An entry's id is its time and, as its sequence number, whose writes these data are: a server that was promoted
-- gives no id again that a commit had which it lacks, whatever its clock says.
local function add_entry(call, ms)
  return call('XADD', changelog, text(ms) .. '-' .. text(tonumber(string.sub(server, -8), 16)), 'from', from,
    'to', to, 'fence', fence, 'total', total, 'events', ARGV[6], 'changes', ARGV[9], 'ids', ARGV[10])
end

local entry = ''
if ARGV[8] == '1' then
  entry = add_entry(redis.pcall, now_ms())
  if type(entry) == 'table' then -- refused: the clock is not above the last one
    local last = redis.call('EXISTS', changelog) == 1 and stream_facts(changelog)['last-generated-id'] or '0-0'
    entry = add_entry(redis.call, tonumber(string.match(last, '^%d+')) + 1)
  end
end
redis.call('HSET', key('offsets'), partition, to)
redis.call('HSET', key('applied'), partition, total .. ' ' .. text(now_ms()))
local suspect = redis.call('HGET', key('suspects'), partition)
if suspect then
  local crashes, last = string.match(suspect, '^(%d+) (%S+)')
  if tonumber(crashes) < 3 or not above(last, to) then redis.call('HDEL', key('suspects'), partition) end
end
local skip = redis.call('HGET', key('skips'), partition)
if skip and not above(string.match(skip, '^(%S+)'), to) then redis.call('HDEL', key('skips'), partition) end

-- Letters of a sink are as old as their batch: what is doubted below a fence is told by it.
local brings = ARGV[12] ~= '0'
if not brings or not was_kept(partition, ARGV[12], to) then
  local since = brings and ARGV[12] or fence
  for i = 13, #ARGV, 4 do add_letter(partition, since, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
end

-- What is bound was applied by this very commit: it is gone, and what of it cannot be read is kept anew.
local function settle(bound)
  local letters, gone, ids = redis.call('HMGET', bound, 'ids', 'entry', 'new'), {}, {}
  for id in string.gmatch(letters[1], '%S+') do
    gone[id], ids[#ids + 1] = true, id
  end
  for n = 1, tonumber(letters[3]) do
    local new = redis.call('HMGET', bound, 'reason ' .. n, 'entry ' .. n, 'index ' .. n, 'raw ' .. n)
    add_letter(partition, fence, new[1], new[2], new[3], new[4])
  end
  redis.call('XDEL', key('dead:' .. partition), unpack(ids))
  if ARGV[8] == '1' then note_replayed(partition, to, letters[2]) end
  local replays = replays_of(partition)
  local had = replays['had']
  replays['crashes'], replays['width'], replays['over'], replays['had'] = 0, 0, false, false
  store_replays(partition, replays, gone)
  return had
end

-- What was kept below that fence may have been applied.
local function doubt_below(first)
  doubt(partition, first, '0-0')
  local replays, gone = replays_of(partition), {}
  for id in pairs((asked_in(replays))) do
    local letter = letter_of(partition, id)
    gone[id] = not letter or not is_sure(partition, letter)
  end
  if replays then store_replays(partition, replays, gone) end
end

-- A sink is ahead by what Redis does not know. Without a loss that is one batch, and none of letters; else letters may
-- have been applied, of which only those of this incarnation are known.
local function doubt_the_lost()
  local meta = redis.call('HMGET', KEYS[1], 'run_id', 'incarnation')
  local is_known = meta[1] == run_id() and meta[2]
  doubt_below(is_known and text(tonumber(meta[2]) * 4294967296) or text(tonumber(fence) + 1))
end

local bound = key('replaying:' .. partition)
if brings or redis.call('HEXISTS', key('replays'), partition) == 1 then
  local ends = redis.call('HMGET', bound, 'from', 'to')
  if ends[1] == from and ends[2] == to then
    -- Where fewer were bound anew, a sink that is ahead may have had it from who died before that.
    if settle(bound) and brings then doubt_below(text(tonumber(fence) + 1)) end
  elseif brings then
    doubt_the_lost()
  end
  redis.call('DEL', bound)
end
return {'done', to, entry}
