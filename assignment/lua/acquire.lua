-- ARGV: speaker, ttl_ms, mode_epoch, incarnation, partition ...
-- Answers {'fenced'}, {'mode'}, {'no_incarnation'}, or {'ok', {partition, answer, ...} ...} with answer
-- 'granted' fence state | 'held' holder left_ms | 'not_target'.
local AT_ONCE = 1000 -- unpack has a limit of about 8,000
local member, ttl_ms = speaks_for(ARGV[1]), tonumber(ARGV[2])
if not member then return {'fenced'} end
local meta = redis.call('HMGET', KEYS[1], 'mode_epoch', 'incarnation', 'run_id')
if meta[1] ~= ARGV[3] then return {'mode'} end
-- This connection's run: a Redis that was started anew may have lost grants, so it grants nothing yet.
if not meta[2] or meta[2] ~= ARGV[4] or meta[3] ~= run_id() then return {'no_incarnation'} end

local allowed = {}
local row = redis.call('HGET', key('target'), member)
if row then
  for _, partition in ipairs(cjson.decode(row)['active']) do allowed[partition] = true end
end

local now = now_ms()
local lowest = tonumber(meta[2]) * 4294967296
local owned = key('owned:' .. member)

-- Asked again after a lost reply: the same fence, and a whole lease from now, as the asker counts it.
local function grant_again(partition, fence)
  set_lock(partition, member, fence, now + ttl_ms)
  local held, state = string.match(redis.call('HGET', owned, partition) or '', '^(%d+) (%S+)$')
  if held ~= fence then
    state = 'restoring'
    redis.call('HSET', owned, partition, fence .. ' ' .. state)
  end
  return {partition, 'granted', fence, state}
end

local function grant_new(partition)
  local before = grant_of(partition)
  redis.call('HDEL', key('awaited'), partition)
  if before and before.ended == '-' then
    local released = before.member == member and holds(partition, member, before.fence)
    end_grant(partition, before, released and 'released' or 'expired', math.min(before.until_ms, now))
  end
  local fence = text(math.max(before and tonumber(before.fence) or 0, lowest) + 1)
  set_lock(partition, member, fence, now + ttl_ms)
  redis.call('HSET', owned, partition, fence .. ' restoring')
  redis.call('HSET', key('since'), partition, fence .. ' ' .. text(now))
  record('acquired', partition, member, fence, now)
  return {partition, 'granted', fence, 'restoring'}
end

local answers, latest = {'ok'}, {} -- of one that is asked for twice

local function answer_of(partition, lock, stored, waits)
  local holder, fence = string.match(latest[partition] or stored or '', '^(.*)/(%d+)$')
  if not allowed[partition] then return {partition, 'not_target'} end
  local answer
  if not holder then
    answer = grant_new(partition)
  elseif holder == member and tonumber(fence) > lowest then
    answer = grant_again(partition, fence)
  elseif holder == member then -- another may have had a newer fence before the incarnation was raised
    answer = grant_new(partition)
  else
    waits[#waits + 1] = partition
    return {partition, 'held', holder, text(math.max(redis.call('PTTL', lock), 0))}
  end
  latest[partition] = member .. '/' .. answer[3]
  return answer
end

-- The locks are read at once, and who waits is stored at once: most of a member's questions are for what others
-- hold.
for first = 5, #ARGV, AT_ONCE do
  local locks, waits, awaited = {}, {}, {}
  for i = first, math.min(first + AT_ONCE - 1, #ARGV) do locks[#locks + 1] = key('lock:' .. ARGV[i]) end
  for n, stored in ipairs(redis.call('MGET', unpack(locks))) do
    answers[#answers + 1] = answer_of(ARGV[first + n - 1], locks[n], stored, waits)
  end
  local known = #waits > 0 and redis.call('HMGET', key('awaited'), unpack(waits)) or {}
  for n, partition in ipairs(waits) do
    if known[n] ~= member then
      awaited[#awaited + 1] = partition
      awaited[#awaited + 1] = member
    end
  end
  if #awaited > 0 then redis.call('HSET', key('awaited'), unpack(awaited)) end
end
return answers
