-- A producer's batch. KEYS: entries, producers, index of one partition, all in its slot. ARGV: producer, its
-- sequence (1, 2, ... per partition), a note kept beside it, then per entry: events in it, bytes, number of
-- names and values that follow, names and values.
-- Answers {'done' | 'already', id of the last entry of that sequence or ''}, or {'gap', last sequence} when a
-- batch before this one is missing. `producers` holds 'p:<producer>' -> "sequence id note" and the totals
-- ':events', ':bytes', ':entries', ':index_events', ':index_bytes'.
local POINT_EVENTS, POINT_BYTES = 1000, 262144
local PRODUCERS_MAX, FORGET_AFTER_MS = 1000, 86400000
local entries, producers, index = KEYS[1], KEYS[2], KEYS[3]
local field, sequence = 'p:' .. ARGV[1], tonumber(ARGV[2])

local stored = redis.call('HGET', producers, field)
local last, last_id = string.match(stored or '0 0-0 ', '^(%d+) (%S+) ')
last = tonumber(last)
if sequence <= last then return {'already', sequence == last and last_id or ''} end
if sequence > last + 1 then return {'gap', text(last)} end

local totals = redis.call('HMGET', producers, ':events', ':bytes', ':entries', ':index_events', ':index_bytes')
local events, bytes, count = tonumber(totals[1] or '0'), tonumber(totals[2] or '0'), tonumber(totals[3] or '0')
local point_events, point_bytes = tonumber(totals[4] or '0'), tonumber(totals[5] or '0')
local id = last_id
local i = 4
while i <= #ARGV do
  local names = tonumber(ARGV[i + 2])
  id = redis.call('XADD', entries, '*', unpack(ARGV, i + 3, i + 2 + names))
  events = events + tonumber(ARGV[i])
  bytes = bytes + tonumber(ARGV[i + 1])
  count = count + 1
  if events - point_events >= POINT_EVENTS or bytes - point_bytes >= POINT_BYTES then
    redis.call('XADD', index, id, 'events', text(events), 'bytes', text(bytes))
    point_events, point_bytes = events, bytes
  end
  i = i + 3 + names
end

if not stored and redis.call('HLEN', producers) > PRODUCERS_MAX then
  local now = tonumber(redis.call('TIME')[1]) * 1000
  local all = redis.call('HGETALL', producers)
  for j = 1, #all, 2 do
    local ms = string.match(all[j + 1], '^%d+ (%d+)%-%d+ ')
    if string.sub(all[j], 1, 2) == 'p:' and ms and now - tonumber(ms) > FORGET_AFTER_MS then
      redis.call('HDEL', producers, all[j])
    end
  end
end
redis.call('HSET', producers, field, text(sequence) .. ' ' .. id .. ' ' .. ARGV[3], ':events', text(events),
  ':bytes', text(bytes), ':entries', text(count), ':index_events', text(point_events),
  ':index_bytes', text(point_bytes))
return {'done', id}
