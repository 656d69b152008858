-- Letters that ended consumers three times in a row: half as many at once from now on, and after each further time; one
-- that does it alone waits no more, and is kept with that reason. ARGV: partition, fence, the committed offset, letters
-- that were planned. Asked by a plan that knows that the effects of those before are nowhere: a sink was looked at, and
-- stands at that offset. Answers 'done', 'fenced' (the fence is not the last granted) or 'moved' (it is to be planned
-- anew).
local partition, fence, letters = ARGV[1], ARGV[2], tonumber(ARGV[4])
local grant = grant_of(partition)
if not grant or grant.fence ~= fence then return 'fenced' end
local replays = replays_of(partition)
if (redis.call('HGET', key('offsets'), partition) or '0-0') ~= ARGV[3] or not replays or not replays['over'] then
  return 'moved'
end

local function give_up()
  local id, actor = replays['asks'][1]['ids'][1], replays['asks'][1]['actor']
  local letter = letter_of(partition, id)
  if letter then
    local told = 'replayed by ' .. actor .. ': it ends the consumer: ' .. replays['why']
    add_letter(partition, fence, string.sub(told, 1, REASON_MAX), letter['entry'], letter['index'] or '',
      letter['raw'] or '')
    redis.call('XDEL', key('dead:' .. partition), id)
  end
  replays['crashes'], replays['width'] = 0, 0
  return {[id] = true}
end

local gone = {}
if letters > 1 then
  replays['width'] = math.floor(letters / 2)
else
  gone = give_up()
end
-- What a sink was sent by who died then may reach it even now: see commit.lua.
local was_bound = redis.call('DEL', key('replaying:' .. partition)) == 1
replays['had'] = replays['had'] or was_bound
replays['over'] = false
store_replays(partition, replays, gone)
return 'done'
