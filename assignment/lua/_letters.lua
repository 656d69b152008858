-- Put before the scripts that touch dead letters, after _common.lua. Of each partition
-- replays: what is asked to be replayed, JSON {asks: [{actor, ids}], crashes: in a row, with them in hand, why of the
--   last one, width: how many at once (0: as many as a batch takes), over: they are to be narrowed down first, had: more
--   were bound before that (narrow.lua)};
-- replaying:<partition>: what a batch would apply, bound before its effects are stored (bind.lua);
-- doubts: "fence offset ...": letters that were kept below that fence, of entries above that offset, are replayed no
--   more: what became of their events is not known, or they are read again;
-- replayed: "offset entry ...": replays that state has the effects of, by their end and the lowest entry of theirs;
-- lettered: "fence offset ...": batches below that fence, up to that offset, of which the letters were kept before a
--   person set the offset back. A SQL sink stays where it is, and does not give them again.
local PAIRS_MAX = 20 -- in doubts and in replayed; the oldest two become one that says at least what both did; in
-- lettered the oldest goes
local LETTERS_MAX = 100000 -- of a partition
local REASON_MAX = 300

local function add_letter(partition, fence, reason, entry, index, raw)
  redis.call('XADD', key('dead:' .. partition), 'MAXLEN', '~', LETTERS_MAX, '*', 'reason', reason,
    'entry', entry, 'index', index, 'raw', raw, 'fence', fence)
end

-- Its fields by name; nil: it is not there.
local function letter_of(partition, id)
  local found = redis.call('XRANGE', key('dead:' .. partition), id, id)[1]
  if not found then return nil end
  local letter = {}
  for i = 1, #found[2], 2 do letter[found[2][i]] = found[2][i + 1] end
  return letter
end

local function replays_of(partition)
  local stored = redis.call('HGET', key('replays'), partition)
  return stored and cjson.decode(stored) or nil
end

-- Ids that wait to be replayed -> who asked for them.
local function asked_in(replays)
  local asked, count = {}, 0
  for _, ask in ipairs(replays and replays['asks'] or {}) do
    for _, id in ipairs(ask['ids']) do
      asked[id] = ask['actor']
      count = count + 1
    end
  end
  return asked, count
end

-- `gone`: a set of ids that wait no more.
local function store_replays(partition, replays, gone)
  local asks = {}
  for _, ask in ipairs(replays['asks']) do
    local ids = {}
    for _, id in ipairs(ask['ids']) do
      if not gone[id] then ids[#ids + 1] = id end
    end
    ask['ids'] = ids
    if #ids > 0 then asks[#asks + 1] = ask end
  end
  replays['asks'] = asks
  if #asks > 0 then
    redis.call('HSET', key('replays'), partition, cjson.encode(replays))
  else
    redis.call('HDEL', key('replays'), partition)
  end
end

local function forget_replays(partition)
  redis.call('HDEL', key('replays'), partition)
  redis.call('DEL', key('replaying:' .. partition))
end

local function pairs_in(name, partition)
  local found = {}
  for left, right in string.gmatch(redis.call('HGET', key(name), partition) or '', '(%S+) (%S+)') do
    found[#found + 1] = {left, right}
  end
  return found
end

local function store_pairs(name, partition, found)
  local texts = {}
  for i, pair in ipairs(found) do texts[i] = pair[1] .. ' ' .. pair[2] end
  if #texts > 0 then
    redis.call('HSET', key(name), partition, table.concat(texts, ' '))
  else
    redis.call('HDEL', key(name), partition)
  end
end

local function lower(left, right) return above(left, right) and right or left end

-- What the new pair says too is left out.
local function doubt(partition, fence, offset)
  local kept = {}
  for _, pair in ipairs(pairs_in('doubts', partition)) do
    if tonumber(pair[1]) > tonumber(fence) or above(offset, pair[2]) then kept[#kept + 1] = pair end
  end
  kept[#kept + 1] = {fence, offset}
  if #kept > PAIRS_MAX then
    local oldest = table.remove(kept, 1)
    kept[1] = {text(math.max(tonumber(oldest[1]), tonumber(kept[1][1]))), lower(oldest[2], kept[1][2])}
  end
  store_pairs('doubts', partition, kept)
end

-- Whether a letter may be replayed: a consumer kept it, and nothing is doubted of it.
local function is_sure(partition, letter)
  local entry, fence = letter['entry'] or '', tonumber(letter['fence'] or '')
  local is_of_consumer = string.match(entry, '^%d+%-%d+$') and string.match(letter['index'] or '', '^%d*$')
  if not fence or not is_of_consumer then return false end
  for _, pair in ipairs(pairs_in('doubts', partition)) do
    if fence < tonumber(pair[1]) and above(entry, pair[2]) then return false end
  end
  return true
end

local function note_lettered(partition, fence, offset)
  local kept = {}
  for _, pair in ipairs(pairs_in('lettered', partition)) do
    if above(pair[2], offset) then kept[#kept + 1] = pair end
  end
  kept[#kept + 1] = {fence, offset}
  if #kept > PAIRS_MAX then table.remove(kept, 1) end
  store_pairs('lettered', partition, kept)
end

-- Whether the letters of a batch that ended at `to` were.
local function was_kept(partition, fence, to)
  for _, pair in ipairs(pairs_in('lettered', partition)) do
    if tonumber(fence) < tonumber(pair[1]) and not above(to, pair[2]) then return true end
  end
  return false
end

-- Effects of letters are in the state since `to`; the lowest of their entries is `entry`.
local function note_replayed(partition, to, entry)
  local noted = pairs_in('replayed', partition)
  noted[#noted + 1] = {to, entry}
  if #noted > PAIRS_MAX then
    local oldest = table.remove(noted, 1)
    noted[1][2] = lower(oldest[2], noted[1][2])
  end
  store_pairs('replayed', partition, noted)
end
