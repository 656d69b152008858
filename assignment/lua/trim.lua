-- Drops entries of a partition that all groups of its stream have committed. KEYS: entries, index, hold (an offset
-- that a person sets: whoever read the committed ones before that drops nothing above it). ARGV: the lowest
-- of their offsets, replication id of the data that said so: others may have less committed, since when (ms) they
-- are kept all the same, and how many bytes of the partition's in memory those may come to, with what waits.
-- Answers how many went. Of the index the last point at or below the first entry stays: counting starts from it.
local ENTRIES_AT_ONCE = 1000000 -- some milliseconds; without a limit Redis stops after 10,000
local entries, index, lowest, since = KEYS[1], KEYS[2], ARGV[1], ARGV[3] .. '-0'
if replication_id() ~= ARGV[2] then return 0 end
local hold = redis.call('GET', KEYS[3])
if hold and above(lowest, hold) then lowest = hold end

local function drop(below, most) return redis.call('XTRIM', entries, 'MINID', '~', below, 'LIMIT', text(most)) end

local gone = drop(above(lowest, since) and since or lowest, ENTRIES_AT_ONCE)
local size = redis.call('MEMORY', 'USAGE', entries, 'SAMPLES', 1000) or 0
local excess = size - tonumber(ARGV[4])
if excess > 0 then
  local length = redis.call('XLEN', entries)
  gone = gone + drop(lowest, math.min(ENTRIES_AT_ONCE, math.ceil(length * excess / size)))
end
local first = redis.call('XRANGE', entries, '-', '+', 'COUNT', 1)[1]
local point = redis.call('XREVRANGE', index, first and first[1] or lowest, '-', 'COUNT', 1)[1]
if point then redis.call('XTRIM', index, 'MINID', '~', point[1]) end
return gone
