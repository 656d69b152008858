-- Before the effects of replayed letters are stored anywhere: what the commit that follows does with them. It goes
-- from the committed offset to the very next id, which is no entry's. ARGV: partition, fence, from, to, replication id
-- under which it was planned, the lowest entry of the letters, their ids with spaces between, then what of them cannot
-- be read again, as new letters: reason, entry, index, raw ...
-- Answers 'done', 'fenced' (the fence is not the last granted) or 'moved' (it is to be planned anew). A sink has the
-- effects before Redis hears of it: so what is bound is planned again as it is, until the offset has moved, or it
-- is narrowed down (narrow.lua).
local partition, fence, from, to, ids = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[7]
local grant = grant_of(partition)
if not grant or grant.fence ~= fence then return 'fenced' end
local committed = redis.call('HGET', key('offsets'), partition) or '0-0'
if committed ~= from or ARGV[5] ~= replication_id() then return 'moved' end
local bound = key('replaying:' .. partition)
local before = redis.call('HMGET', bound, 'from', 'ids')
if before[1] and before[1] ~= from then -- only a consumer older than this goes past it without a word
  doubt(partition, text(tonumber(fence) + 1), '0-0')
  forget_replays(partition)
  return 'moved'
end
if ids == '' or before[1] and before[2] ~= ids then return 'moved' end
local asked = asked_in(replays_of(partition))
for id in string.gmatch(ids, '%S+') do
  if not asked[id] then return 'moved' end
end
redis.call('DEL', bound)
redis.call('HSET', bound, 'from', from, 'to', to, 'ids', ids, 'entry', ARGV[6], 'new', text((#ARGV - 7) / 4))
for i = 8, #ARGV, 4 do
  local n = text((i - 4) / 4)
  redis.call('HSET', bound, 'reason ' .. n, ARGV[i], 'entry ' .. n, ARGV[i + 1], 'index ' .. n, ARGV[i + 2],
    'raw ' .. n, ARGV[i + 3])
end
return 'done'
