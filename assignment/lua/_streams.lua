-- Put before every script, as far as it uses it: numbers as texts, whose data these are, the ids of streams.

local function text(number) return string.format('%.0f', number) end

-- Of two stream ids, whether the left one is the higher.
local function above(left, right)
  local left_ms, left_seq = string.match(left, '^(%d+)-(%d+)$')
  local right_ms, right_seq = string.match(right, '^(%d+)-(%d+)$')
  if left_ms ~= right_ms then return tonumber(left_ms) > tonumber(right_ms) end
  return tonumber(left_seq) > tonumber(right_seq)
end

-- Whose writes these data are: whoever is promoted goes on under another one.
local function replication_id()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
end

-- What XINFO says of a stream that is there, by name.
local function stream_facts(stream)
  local info = redis.call('XINFO', 'STREAM', stream)
  local facts = {}
  for i = 1, #info, 2 do facts[info[i]] = info[i + 1] end
  return facts
end

-- The stream's ids go on above `id`, whatever the clock says and whether it is there or not; whether they did
-- not before. Made by a group of consumers: XADD and XDEL would leave an entry counted (bound.lua).
local function lift(stream, id)
  if redis.call('EXISTS', stream) == 0 then
    redis.call('XGROUP', 'CREATE', stream, 'lift', '$', 'MKSTREAM')
    redis.call('XGROUP', 'DESTROY', stream, 'lift')
  end
  local lifts = above(id, stream_facts(stream)['last-generated-id'])
  if lifts then redis.call('XSETID', stream, id) end
  return lifts
end
