-- A person sets the committed offset of a partition that stands still. ARGV: partition, committed offset and last
-- granted fence as they were looked at, the new offset, events applied up to there, whether state is kept ('1'/'0'),
-- packed changes of nothing, whether effects are state, also where nothing of it is kept yet ('1'/'0').
-- Answers {'done', new fence}, or nothing is changed: {'running'} (not paused, or a batch may be in hand), {'moved',
-- committed offset, fence} (it is not as it was looked at), {'no_state'} (none can be built at that offset),
-- {'replayed'} (state has effects of letters that would go, and whose entries are not read again from there).
-- Everything changes in one step: a new fence, so that whoever held it commits no more, the offset, and of the state
-- what lies above it; its owner keeps the lock and restores. State that is skipped forward stays as it is: an entry
-- without changes leads there, so that replicas follow.
local ENTRIES_MAX = 10000 -- as in offset_facts
local partition, from, to, keeps = ARGV[1], ARGV[2], ARGV[4], ARGV[6] == '1'
local grant = grant_of(partition)
local committed = redis.call('HGET', key('offsets'), partition) or '0-0'
if committed ~= from or (grant and grant.fence or '0') ~= ARGV[3] then
  return {'moved', committed, grant and grant.fence or '0'}
end
local state = pause_state(partition)
if state ~= 'paused' and state ~= 'unowned' then return {'running'} end
local changelog, now = key('changelog:' .. partition), now_ms()
local stored = redis.call('HGET', key('snapshots'), partition)
local is_kept = stored or redis.call('XLEN', changelog) > 0
if keeps ~= (is_kept ~= false and is_kept ~= nil) then return {'moved', committed, ARGV[3]} end

-- What of the state leads to `to`: its snapshots, and the entries above it, which go.
local records, undone, replayed = {}, {}, {}
if keeps and above(from, to) then
  for _, pair in ipairs(pairs_in('replayed', partition)) do
    if not above(pair[1], to) then
      replayed[#replayed + 1] = pair
    elseif not above(pair[2], to) then
      return {'replayed'}
    end
  end
  local stands = to == '0-0'
  for _, record in ipairs(stored and cjson.decode(stored) or {}) do
    if not above(record['offset'], to) then records[#records + 1] = record end
    stands = stands or record['offset'] == to
  end
  local before = '+'
  while #undone < ENTRIES_MAX do
    local entry = redis.call('XREVRANGE', changelog, before, '-', 'COUNT', 1)[1]
    local reached
    for i = 1, entry and #entry[2] or 0, 2 do
      if entry[2][i] == 'to' then reached = entry[2][i + 1] end
    end
    if not reached or not above(reached, to) then
      stands = stands or reached == to
      break
    end
    undone[#undone + 1] = entry[1]
    before = '(' .. entry[1]
  end
  local first = redis.call('XRANGE', changelog, '-', '+', 'COUNT', 1)[1]
  local begins = first and first[2][1] == 'from' and first[2][2] == '0-0'
  local leads = to == '0-0' or #records > 0 or begins
  if not stands or not leads or #undone == ENTRIES_MAX then return {'no_state'} end
end

local fence
if grant then
  fence = text(tonumber(grant.fence) + 1)
  if state == 'paused' then -- its owner's, as long as the lock would have lasted
    local until_ms = grant.until_ms
    end_grant(partition, grant, 'released', now)
    set_lock(partition, grant.member, fence, until_ms)
    redis.call('HSET', key('owned:' .. grant.member), partition, fence .. ' restoring')
    redis.call('HSET', key('since'), partition, fence .. ' ' .. text(now))
    record('acquired', partition, grant.member, fence, now)
  else
    if grant.ended == '-' then end_grant(partition, grant, 'expired', math.min(grant.until_ms, now)) end
    store_grant(partition, {fence = fence, member = grant.member, until_ms = now, ended = 'released'})
  end
else
  fence = '0'
end
for i = 1, #undone do redis.call('XDEL', changelog, undone[i]) end
if grant and above(from, to) then -- what became a letter above it is read again, or its sink goes past it
  doubt(partition, fence, to)
  if ARGV[8] ~= '1' then note_lettered(partition, fence, from) end
end
forget_replays(partition)
if keeps and above(from, to) then
  store_pairs('replayed', partition, replayed)
  if #records > 0 then
    redis.call('HSET', key('snapshots'), partition, cjson.encode(records))
  else
    redis.call('HDEL', key('snapshots'), partition)
  end
elseif ARGV[8] == '1' and above(to, from) then
  local is_there = redis.call('EXISTS', changelog) == 1
  local last = is_there and stream_facts(changelog)['last-generated-id'] or '0-0'
  local ms = math.max(now, tonumber(string.match(last, '^%d+')) + 1)
  local id = text(ms) .. '-' .. text(tonumber(string.sub(replication_id(), -8), 16))
  redis.call('XADD', changelog, id, 'from', from, 'to', to, 'fence', fence, 'total', ARGV[5], 'events', '0',
    'changes', ARGV[7], 'ids', '')
end
if to == '0-0' then
  redis.call('HDEL', key('offsets'), partition)
  redis.call('HDEL', key('applied'), partition)
else
  redis.call('HSET', key('offsets'), partition, to)
  redis.call('HSET', key('applied'), partition, ARGV[5] .. ' ' .. text(now))
end
for _, name in ipairs({'suspects', 'skips'}) do redis.call('HDEL', key(name), partition) end
hint('released', grant and grant.member or '')
if grant then tell(grant.member, 'released') end
return {'done', fence}
