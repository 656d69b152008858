-- Drops entries of a partition that all groups of its stream have committed. KEYS: entries, index. ARGV: the lowest
-- of their offsets, replication id of the data that said so: others may have less committed. Answers how many went.
-- Of the index the last point at or below stays: counting starts from it.
if replication_id() ~= ARGV[2] then return 0 end
local point = redis.call('XREVRANGE', KEYS[2], ARGV[1], '-', 'COUNT', 1)[1]
if point then redis.call('XTRIM', KEYS[2], 'MINID', '~', point[1]) end
return redis.call('XTRIM', KEYS[1], 'MINID', '~', ARGV[1])
