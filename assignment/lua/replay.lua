-- A person asks that dead letters be replayed, inside this group only. ARGV: who, most that wait of a partition, then
-- partition, letter ... The consumer of their owner applies them with one of its next
-- batches (next_batch.lua, bind.lua, commit.lua). Answers of each 'asked'; 'waits': it was asked before; 'gone';
-- 'full': so many wait already; 'doubted': it is not known what became of its event, or that is read again.
local actor, most = ARGV[1], tonumber(ARGV[2])
local answers, changed = {}, {}

local function of(partition)
  if not changed[partition] then
    local replays = replays_of(partition) or {asks = {}, crashes = 0, width = 0}
    local asked, count = asked_in(replays)
    changed[partition] = {replays = replays, asked = asked, count = count, new = {}}
  end
  return changed[partition]
end

local function answer(partition, id)
  local waiting = of(partition)
  if waiting.asked[id] then return 'waits' end
  local letter = letter_of(partition, id)
  if not letter then return 'gone' end
  if not is_sure(partition, letter) then return 'doubted' end
  if waiting.count >= most then return 'full' end
  waiting.asked[id], waiting.count = actor, waiting.count + 1
  waiting.new[#waiting.new + 1] = id
  return 'asked'
end

for i = 3, #ARGV, 2 do answers[#answers + 1] = answer(ARGV[i], ARGV[i + 1]) end
for partition, waiting in pairs(changed) do
  if #waiting.new > 0 then
    local asks = waiting.replays['asks']
    asks[#asks + 1] = {actor = actor, ids = waiting.new}
    store_replays(partition, waiting.replays, {})
  end
end
return answers
