-- ARGV: partition, fence, url, offset, changelog id, events applied in total, trim ('1'/'0').
-- Answers 'done', 'fenced' or 'old' (not above the recorded one, above what is committed, or of a commit that
-- Redis lost since).
-- Keeps the record before it, and trims the changelog only up to that one's changelog id.
local partition, fence, offset = ARGV[1], ARGV[2], ARGV[4]
local grant = grant_of(partition)
if not grant or grant.fence ~= fence then return 'fenced' end
local stored = redis.call('HGET', key('snapshots'), partition)
if #redis.call('XRANGE', key('changelog:' .. partition), ARGV[5], ARGV[5]) == 0 then return 'old' end
local before = stored and cjson.decode(stored)[1] or nil
if before and not above(offset, before['offset']) then return 'old' end
if above(offset, redis.call('HGET', key('offsets'), partition) or '0-0') then return 'old' end
local record_now = {url = ARGV[3], offset = offset, changelog_id = ARGV[5], total = ARGV[6], fence = fence}
local records = {record_now, before}
redis.call('HSET', key('snapshots'), partition, cjson.encode(records))
if before and ARGV[7] == '1' then
  redis.call('XTRIM', key('changelog:' .. partition), 'MINID', before['changelog_id'])
end
return 'done'
