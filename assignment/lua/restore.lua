-- Before anything is granted by a Redis that may have lost writes. ARGV: the incarnation to be set
-- after it; partition, snapshot record (JSON), ...
-- Each partition below its record is moved forward to it: offset, count and the record, whose fence says whose
-- history it is, in one step; none goes back. The changelog's ids go on above the record's, which copies on disk
-- have; where they are there already, the record is read together with it from its end: what comes next follows.
-- Answers {'done', how many were moved}, or {'late'} when grants are possible under it already.
local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'run_id')
if meta[1] and meta[2] == run_id() and tonumber(meta[1]) >= tonumber(ARGV[1]) then return {'late'} end
local count = 0
for i = 2, #ARGV, 2 do
  local partition, snapshot = ARGV[i], cjson.decode(ARGV[i + 1])
  if above(snapshot['offset'], redis.call('HGET', key('offsets'), partition) or '0-0') then
    redis.call('HSET', key('offsets'), partition, snapshot['offset'])
    redis.call('HSET', key('applied'), partition, snapshot['total'] .. ' ' .. text(now_ms()))
    local changelog = key('changelog:' .. partition)
    lift(changelog, snapshot['changelog_id'])
    local last = redis.call('XREVRANGE', changelog, '+', '-', 'COUNT', 1)[1]
    if last and above(last[1], snapshot['changelog_id']) then snapshot['changelog_id'] = last[1] end
    local stored = redis.call('HGET', key('snapshots'), partition)
    local records = {snapshot, stored and cjson.decode(stored)[1] or nil}
    redis.call('HSET', key('snapshots'), partition, cjson.encode(records))
    doubt(partition, text(tonumber(ARGV[1]) * 4294967296), '0-0') -- the snapshot may have effects of letters
    forget_replays(partition)
    count = count + 1
  end
end
return {'done', count}
