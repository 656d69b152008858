-- ARGV: speaker, ttl_ms, mode_epoch, incarnation, partition ...
-- Answers {'fenced'}, {'mode'}, {'no_incarnation'}, or {'ok', {partition, answer, ...} ...} with answer
-- 'granted' fence state | 'held' holder left_ms | 'not_target'.
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

local function end_before(partition, before)
  if not before or before.ended ~= '-' then return end
  local released = before.member == member and holds(partition, member, before.fence)
  end_grant(partition, before, released and 'released' or 'expired', math.min(before.until_ms, now))
end

-- Of partitions that nobody holds, or this member under a fence of before the incarnation was raised: then another may
-- have had a newer one. Their fences, in their order. What each writes beside its lock and its event is written at
-- once: most of what a group does while it changes hands is this.
local function grant_new(partitions)
  if #partitions == 0 then return {} end
  local befores, fences, grants, held, since = {}, {}, {}, {}, {}
  for i, stored in ipairs(redis.call('HMGET', key('grants'), unpack(partitions))) do
    befores[i] = stored and read_grant(stored)
    fences[i] = text(math.max(stored and tonumber(befores[i].fence) or 0, lowest) + 1)
  end
  redis.call('HDEL', key('awaited'), unpack(partitions))
  local until_ms, at_ms = text(now + ttl_ms), text(now)
  for i, partition in ipairs(partitions) do
    local fence, n = fences[i], 2 * i
    end_before(partition, befores[i])
    redis.call('SET', key('lock:' .. partition), member .. '/' .. fence, 'PXAT', until_ms)
    grants[n - 1], grants[n] = partition, grant_text(fence, member, until_ms, '-')
    held[n - 1], held[n] = partition, fence .. ' restoring'
    since[n - 1], since[n] = partition, fence .. ' ' .. at_ms
  end
  redis.call('HSET', key('grants'), unpack(grants))
  redis.call('HSET', owned, unpack(held))
  redis.call('HSET', key('since'), unpack(since))
  lower_end(member, now + ttl_ms)
  record_each('acquired', partitions, member, fences, now)
  return fences
end

-- What nobody holds waits for its turn in `new`.
local function answer_of(partition, lock, stored, new, waits)
  local holder, fence = string.match(stored or '', '^(.*)/(%d+)$')
  if not allowed[partition] then return {partition, 'not_target'} end
  if holder == member and tonumber(fence) > lowest then return grant_again(partition, fence) end
  if not holder or holder == member then
    new[#new + 1] = partition
    return {partition, 'granted'}
  end
  waits[#waits + 1] = partition
  return {partition, 'held', holder, text(math.max(redis.call('PTTL', lock), 0))}
end

-- The locks are read at once, and who waits is stored at once: most of a member's questions are for what others
-- hold. One that is asked for twice is answered once, and again the same.
local names = {}
for i = 5, #ARGV do names[#names + 1] = ARGV[i] end
local answers, answered = {'ok'}, {}
for _, part in ipairs(parts_of(names)) do
  local locks, new, waits, awaited = locks_of(part), {}, {}, {}
  for n, stored in ipairs(redis.call('MGET', unpack(locks))) do
    local name = part[n]
    answered[name] = answered[name] or answer_of(name, locks[n], stored, new, waits)
    answers[#answers + 1] = answered[name]
  end
  for n, fence in ipairs(grant_new(new)) do
    answered[new[n]][3], answered[new[n]][4] = fence, 'restoring'
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
