-- A consumer ended, or its query failed, with a batch in hand. ARGV: why, entries that the batch had of its only
-- partition when that was processed alone for suspicion ('0': it was not), letters that it replayed ('0': it did not),
-- then partition, fence, from, to ...
-- Counts what was not committed, under the last granted fence. suspects[partition] is the text "crashes to width
-- halted why": the event that does it is not above `to`; from three crashes on the partition is processed alone,
-- at most `width` entries at once (0: as many as a look reads), half as many after each crash, until one entry
-- crashes alone: then halted is 1. A commit forgets it (commit.lua). Answers how many were counted.
-- Letters likewise, but none stops its partition: one that does it alone waits no more, and is kept with that reason.
local why, alone, letters, counted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 0

local function give_up(partition, fence, replays)
  local id, actor = replays['asks'][1]['ids'][1], replays['asks'][1]['actor']
  local letter = letter_of(partition, id)
  if letter then
    local reason = 'replayed by ' .. actor .. ': it ends the consumer: ' .. why
    add_letter(partition, fence, string.sub(reason, 1, REASON_MAX), letter['entry'], letter['index'] or '',
      letter['raw'] or '')
    redis.call('XDEL', key('dead:' .. partition), id)
  end
  return {[id] = true}
end

local function blame_letters(partition, fence)
  local replays, gone = replays_of(partition), {}
  if not replays then return 0 end
  replays['crashes'] = replays['crashes'] + 1
  if replays['crashes'] >= 3 then
    redis.call('DEL', key('replaying:' .. partition))
    if letters > 1 then
      replays['width'] = math.floor(letters / 2)
    else
      gone = give_up(partition, fence, replays)
      replays['crashes'], replays['width'] = 0, 0
    end
  end
  store_replays(partition, replays, gone)
  return 1
end

for i = 4, #ARGV, 4 do
  local partition, fence, from, to = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local grant = grant_of(partition)
  local committed = redis.call('HGET', key('offsets'), partition) or '0-0'
  local crashes, _, width, halted =
    string.match(redis.call('HGET', key('suspects'), partition) or '', '^(%d+) (%S+) (%d+) (%d) ')
  if grant and grant.fence == fence and committed == from and letters > 0 then
    counted = counted + blame_letters(partition, fence)
  elseif grant and grant.fence == fence and committed == from and halted ~= '1' then
    width = alone > 1 and math.floor(alone / 2) or width or 0
    redis.call('HSET', key('suspects'), partition, text((crashes or 0) + 1) .. ' ' .. to .. ' ' .. text(width)
      .. ' ' .. (alone == 1 and '1' or '0') .. ' ' .. why)
    counted = counted + 1
  end
end
return counted
