-- What is known of a partition's committed offset and of the state that is kept. ARGV: partition, wanted offset ('' =
-- only what stands). Changes nothing. Answers {committed offset or '0-0', events applied, last granted fence or '0',
-- 'paused', 'pausing', 'unowned' or '', whether state is kept ('1'/'0'), the oldest offset at which it can be built
-- or '', the last at or below the wanted one or '', events applied up to there, snapshot records (JSON) or '', replays
-- that state has the effects of (_letters.lua)}.
local ENTRIES_MAX = 10000 -- of a changelog: five times what lies between two snapshots
local partition, wanted = ARGV[1], ARGV[2]
local grant = grant_of(partition)
local committed = redis.call('HGET', key('offsets'), partition) or '0-0'
local applied = string.match(redis.call('HGET', key('applied'), partition) or '0 ', '^(%d+) ')
local stored = redis.call('HGET', key('snapshots'), partition)
local changelog = key('changelog:' .. partition)
local keeps = stored or redis.call('XLEN', changelog) > 0
local oldest, found, total = '', '', '0'

local function may_be(offset, events)
  if oldest == '' or above(oldest, offset) then oldest = offset end
  if wanted ~= '' and not above(offset, wanted) and (found == '' or above(offset, found)) then
    found, total = offset, events
  end
end

for _, record in ipairs(stored and cjson.decode(stored) or {}) do may_be(record['offset'], record['total']) end
local after, count = '-', 0
while keeps and count < ENTRIES_MAX do
  local entry = redis.call('XRANGE', changelog, after, '+', 'COUNT', 1)[1]
  if not entry then break end
  local values = {}
  for i = 1, #entry[2], 2 do values[entry[2][i]] = entry[2][i + 1] end
  if count == 0 and values['from'] == '0-0' then may_be('0-0', '0') end
  if oldest ~= '' and not above(oldest, values['to']) then may_be(values['to'], values['total']) end
  after, count = '(' .. entry[1], count + 1
end
return {committed, applied, grant and grant.fence or '0', pause_state(partition) or '', keeps and '1' or '0',
  oldest, found, total, stored or '', redis.call('HGET', key('replayed'), partition) or ''}
