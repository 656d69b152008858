-- Entries of a partition for people to look at: few, each cut, whatever they hold. KEYS: entries. ARGV: lowest and
-- highest id as XRANGE takes them, newest first ('1'/'0'), most entries, most bytes of one value, of all of them.
-- Answers {id of the first entry or '', last id ever given or '', entries in all, entries ever added or ''}, then
-- of each entry {id, name,
-- bytes of the value, its beginning, name ...}; names are cut too, and fewer entries come than asked for when all
-- of them have too many bytes.
local FIELDS_MAX, NAME_MAX = 200, 200
local entries, low, high, back = KEYS[1], ARGV[1], ARGV[2], ARGV[3] == '1'
local most, value_max, left = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if redis.call('EXISTS', entries) == 0 then return {{'', '', 0, ''}} end

local function next_entry()
  if back then return redis.call('XREVRANGE', entries, high, low, 'COUNT', 1)[1] end
  return redis.call('XRANGE', entries, low, high, 'COUNT', 1)[1]
end

local facts = stream_facts(entries)
local first = redis.call('XRANGE', entries, '-', '+', 'COUNT', 1)[1]
local found = {{first and first[1] or '', facts['last-generated-id'], facts['length'],
  facts['entries-added'] or ''}}
local entry = next_entry()
while entry and #found <= most and left > 0 do
  local shown = {entry[1]}
  for i = 1, math.min(#entry[2], 2 * FIELDS_MAX), 2 do
    local value = string.sub(entry[2][i + 1], 1, math.max(0, math.min(value_max, left)))
    left = left - #value
    shown[#shown + 1] = string.sub(entry[2][i], 1, NAME_MAX)
    shown[#shown + 1] = #entry[2][i + 1]
    shown[#shown + 1] = value
  end
  found[#found + 1] = shown
  if back then high = '(' .. entry[1] else low = '(' .. entry[1] end
  entry = next_entry()
end
return found
