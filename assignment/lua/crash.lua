-- A consumer ended, or its query failed, with a batch in hand. ARGV: why, entries that the batch had of its only
-- partition when that was processed alone for suspicion ('0': it was not), letters that it replayed ('0': it did not),
-- then partition, fence, from, to ...
-- Counts what was not committed, under the last granted fence. suspects[partition] is the text "crashes to width
-- halted why": the event that does it is not above `to`; from three crashes on the partition is processed alone,
-- at most `width` entries at once (0: as many as a look reads), half as many after each crash, until one entry
-- crashes alone: then halted is 1. A commit forgets it (commit.lua). Answers how many were counted.
-- Letters likewise, but none stops its partition: what becomes of them is for the next plan (narrow.lua).
local why, alone, letters, counted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 0

local function blame_letters(partition)
  local replays = replays_of(partition)
  if not replays then return 0 end
  replays['crashes'], replays['why'] = replays['crashes'] + 1, why
  replays['over'] = replays['crashes'] >= 3
  store_replays(partition, replays, {})
  return 1
end

for i = 4, #ARGV, 4 do
  local partition, fence, from, to = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local grant = grant_of(partition)
  local committed = redis.call('HGET', key('offsets'), partition) or '0-0'
  local crashes, _, width, halted =
    string.match(redis.call('HGET', key('suspects'), partition) or '', '^(%d+) (%S+) (%d+) (%d) ')
  if grant and grant.fence == fence and committed == from and letters > 0 then
    counted = counted + blame_letters(partition)
  elseif grant and grant.fence == fence and committed == from and halted ~= '1' then
    width = alone > 1 and math.floor(alone / 2) or width or 0
    redis.call('HSET', key('suspects'), partition, text((crashes or 0) + 1) .. ' ' .. to .. ' ' .. text(width)
      .. ' ' .. (alone == 1 and '1' or '0') .. ' ' .. why)
    counted = counted + 1
  end
end
return counted
