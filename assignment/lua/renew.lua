-- ARGV: speaker, ttl_ms, then partition, fence, ... (may be none). Answers {'fenced'} and touches nothing when
-- it is not a member, else {'ok', incarnation, target_incarnation, target_epoch, mode_epoch, 1 or 0 per
-- partition ...}.
local member, now = speaks_for(ARGV[1]), now_ms()
local until_ms = text(now + tonumber(ARGV[2]))
if not member then return {'fenced'} end
redis.call('ZADD', key('beats'), text(now), member)
local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'target_incarnation', 'target_epoch', 'mode_epoch',
  'left_out')
-- The target left it out, for it took no lock in time. Here it is: a machine that slept, say.
if meta[5] and string.find(meta[5], member, 1, true) then -- rarely
  local others = ' ' .. meta[5] .. ' '
  local first, last = string.find(others, ' ' .. member .. ' ', 1, true)
  if first then
    redis.call('HSET', KEYS[1], 'left_out', string.sub(others, 1, first) .. string.sub(others, last + 1))
    group_changed('able', member)
  end
end
local answers = {'ok', meta[1] or '0', meta[2] or '0', meta[3] or '0', meta[4] or '0'}

-- The same as set_lock for each that is still held; the calls around it are shared, since this is what a
-- group does all day: the lock is as it was and ends later.
local kept, until_then = 0, ' ' .. member .. ' ' .. until_ms .. ' -'
for from = 3, #ARGV, 2 * PART do
  local names, lock, n = {}, key('lock:'), 0
  for i = from, math.min(from + 2 * PART, #ARGV) - 1, 2 do
    n = n + 1
    names[n] = lock .. ARGV[i]
  end
  local grants, granted, before = {}, 0, #answers
  for i, found in ipairs(redis.call('MGET', unpack(names))) do
    local fence = ARGV[from + 2 * i - 1]
    local held = found == member .. '/' .. fence and redis.call('PEXPIREAT', names[i], until_ms) == 1
    if held then
      grants[granted + 1], grants[granted + 2] = ARGV[from + 2 * i - 2], fence .. until_then
      granted = granted + 2
    end
    answers[before + i] = held and 1 or 0
  end
  kept = kept + granted / 2
  if granted > 0 then redis.call('HSET', key('grants'), unpack(grants)) end
end

-- Unless it holds more than it renewed: what it left out ends when it would have.
local all = redis.call('HLEN', key('owned:' .. member))
if all == 0 then
  redis.call('ZREM', key('ends'), member)
elseif kept == all then
  redis.call('ZADD', key('ends'), until_ms, member)
elseif kept > 0 then -- rarely
  lower_end(member, tonumber(until_ms))
end
return answers
