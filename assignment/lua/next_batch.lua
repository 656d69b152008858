-- Asked by the consumer when the batch before is finished. ARGV: speaker.
-- Answers {'fenced'} when it is not a member, else {'ok', replication id, {partition, fence, committed offset,
-- events applied, what is suspected or '', what is skipped or '', letters that wait to be replayed (JSON) or '', those
-- of them that are bound to the next batch or ''} ...} of what is running under its own live lock.
-- What is being revoked is revoked now: no batch holds it any more. What is paused is left out, and noted in
-- `paused` under its fence: it stands still from here on.
local member = speaks_for(ARGV[1])
redis.call('HDEL', KEYS[1], '') -- changes nothing, and is refused where a replica would answer what was
if not member then return {'fenced'} end
local owned = redis.call('HGETALL', key('owned:' .. member))
local answers = {'ok', replication_id()}
local revoked = false
local has_pauses = redis.call('HLEN', key('pauses')) > 0
local has_replays = redis.call('HLEN', key('replays')) > 0

local function asked(partition, committed)
  local replays = has_replays and redis.call('HGET', key('replays'), partition)
  if not replays then return '', '' end
  local bound = redis.call('HMGET', key('replaying:' .. partition), 'from', 'ids')
  return replays, bound[1] == committed and bound[2] or ''
end

for i = 1, #owned, 2 do
  local partition = owned[i]
  local fence, state = string.match(owned[i + 1], '^(%d+) (%S+)$')
  if state == 'revoking' then
    redis.call('HSET', key('owned:' .. member), partition, fence .. ' revoked')
    revoked = true
  elseif state == 'running' and holds(partition, member, fence) then
    if has_pauses and pause_of(partition) then
      redis.call('HSET', key('paused'), partition, fence)
    else
      local committed = redis.call('HGET', key('offsets'), partition) or '0-0'
      local replays, bound = asked(partition, committed)
      answers[#answers + 1] = {partition, fence, committed,
        string.match(redis.call('HGET', key('applied'), partition) or '0 ', '^(%d+) '),
        redis.call('HGET', key('suspects'), partition) or '', redis.call('HGET', key('skips'), partition) or '',
        replays, bound}
    end
  end
end
if revoked then
  hint('revoked', member)
  tell(member, 'revoked')
end
return answers
