-- After a wiped Redis, before anything is granted. ARGV: partition, snapshot record (JSON), ... Each
-- partition starts from its own snapshot: its offset and count are the snapshot's.
-- Answers {'done', how many were put back}, or {'late'} when grants are possible already.
local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'run_id')
if meta[1] and meta[2] == run_id() then return {'late'} end
local count = 0
for i = 1, #ARGV, 2 do
  local record_json = ARGV[i + 1]
  local snapshot = cjson.decode(record_json)
  if redis.call('HSETNX', key('offsets'), ARGV[i], snapshot['offset']) == 1 then
    redis.call('HSET', key('applied'), ARGV[i], snapshot['total'] .. ' ' .. text(now_ms()))
    redis.call('HSET', key('snapshots'), ARGV[i], '[' .. record_json .. ']')
    count = count + 1
  end
end
return {'done', count}
