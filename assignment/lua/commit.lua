-- The fenced commit. ARGV: partition, member, fence, from, to, events in (from, to] (malformed ones too),
-- base (events applied when there is no offset yet), write a changelog entry ('1'/'0'), packed changes,
-- packed event ids ('' = none), replication id under which it was planned ('' = any), dead letters: reason,
-- entry id, index, raw ...
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
for i = 12, #ARGV, 4 do
  redis.call('XADD', key('dead:' .. partition), 'MAXLEN', '~', 100000, '*', 'reason', ARGV[i],
    'entry', ARGV[i + 1], 'index', ARGV[i + 2], 'raw', ARGV[i + 3], 'fence', fence)
end
return {'done', to, entry}
