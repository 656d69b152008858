-- A scale-down tells members, or takes it back. ARGV: drain ('leaving', 'forced' or ''), version of the records
-- that say so, member, ... Of an older version than the last one nothing is changed: an abort has the last word.
-- Writes the rows of members that are there and have another one. Answers the members that were changed; the
-- group_epoch grows once when any was. Taken back, the target's learners are dropped with it: one
-- that is ready at that very moment must not become owner by the next plan. That plan places anew whom it needs.
local reasons = {leaving = 'scale-down', forced = 'forced', [''] = 'cancelled'}
local drain = ARGV[1]
local changed = {}
local is_old = tonumber(ARGV[2]) < tonumber(redis.call('HGET', KEYS[1], 'drain_version') or '0')
if not is_old then redis.call('HSET', KEYS[1], 'drain_version', ARGV[2]) end
for i = is_old and #ARGV + 1 or 3, #ARGV do
  local stored = redis.call('HGET', key('members'), ARGV[i])
  local row = row_of(stored)
  if row and (row['drain'] or '') ~= drain then
    row['drain'] = drain
    redis.call('HSET', key('members'), ARGV[i], cjson.encode(row))
    changed[#changed + 1] = ARGV[i]
  end
end
if drain == '' and #changed > 0 then
  local target = redis.call('HGETALL', key('target'))
  for i = 1, #target, 2 do
    local row, dropped = string.gsub(target[i + 1], '"learning":%[[^%]]+%]', '"learning":[]')
    if dropped > 0 then
      redis.call('HSET', key('target'), target[i], row)
      tell(target[i], reasons[drain])
    end
  end
end
if #changed > 0 then
  redis.call('HINCRBY', KEYS[1], 'coordinator_epoch', 1)
  group_changed(reasons[drain], '')
  for _, member in ipairs(changed) do tell(member, reasons[drain]) end
end
return changed
