-- Dead letters for people to look at: partition by partition, of each the newest first. ARGV: most letters, most bytes
-- that are read through, what their reason contains ('' = whatever), most bytes of a raw text that is answered, the
-- highest id (as XREVRANGE takes it) of the first partition and of the others, partitions ...
-- Answers {ms of now, partition and letter below which it goes on (both '' = that is all)}, then of each {partition,
-- letter, reason, entry, index, bytes of its raw text, their beginning, who asked that it be replayed or '', whether it
-- may be ('1'/'0')}.
local AT_ONCE, TEXT_MAX = 50, 1000
local most, left, wanted, raw_max = tonumber(ARGV[1]), tonumber(ARGV[2]), string.lower(ARGV[3]), tonumber(ARGV[4])
local found, last, asked = {{text(now_ms()), '', ''}}, {'', ''}, {}

local function add(partition, id, said)
  local fields = {}
  for i = 1, #said, 2 do fields[said[i]] = said[i + 1] end
  local reason, raw = fields['reason'] or '', fields['raw'] or ''
  left = left - #reason - #raw
  last = {partition, id}
  if wanted ~= '' and not string.find(string.lower(reason), wanted, 1, true) then return end
  found[#found + 1] = {partition, id, string.sub(reason, 1, TEXT_MAX), string.sub(fields['entry'] or '', 1, TEXT_MAX),
    string.sub(fields['index'] or '', 1, TEXT_MAX), #raw, string.sub(raw, 1, raw_max), asked[id] or '',
    is_sure(partition, fields) and '1' or '0'}
end

for i = 7, #ARGV do
  local high = i == 7 and ARGV[5] or ARGV[6]
  asked = asked_in(replays_of(ARGV[i]))
  local letters = redis.call('XREVRANGE', key('dead:' .. ARGV[i]), high, '-', 'COUNT', AT_ONCE)
  while #letters > 0 do
    for _, letter in ipairs(letters) do
      if #found > most or left <= 0 then
        found[1][2], found[1][3] = last[1], last[2]
        return found
      end
      add(ARGV[i], letter[1], letter[2])
    end
    high = '(' .. last[2]
    letters = redis.call('XREVRANGE', key('dead:' .. ARGV[i]), high, '-', 'COUNT', AT_ONCE)
  end
end
return found
