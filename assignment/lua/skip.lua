-- A person lets a halted partition go on behind the entry that it stands still at. ARGV: partition, entry, who and
-- why (JSON). Its owner's consumer reads it with the next batch and commits the entry as a dead letter under its
-- fence; the commit forgets it. Answers {'done' or 'late' (it is committed already), committed offset}.
local committed = redis.call('HGET', key('offsets'), ARGV[1]) or '0-0'
if not above(ARGV[2], committed) then return {'late', committed} end
redis.call('HSET', key('skips'), ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return {'done', committed}
