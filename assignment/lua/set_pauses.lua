-- What people paused, complete. ARGV: the version over which it is put ('' = any older one), its own version, then
-- scope ('*': every partition, also one that comes later; else a partition), who, when and why (JSON), ...
-- Answers 'done'; 'already': this is what stands, under that version; 'late': another version does, nothing is
-- changed. Owners keep their locks; next_batch gives none of what is paused, and notes in `paused` under which fence
-- its owner was told so. Who goes on is forgotten there: paused again, it must be told again.
local version = redis.call('HGET', KEYS[1], 'pause_version') or '0'
local given, count = {}, 0
for i = 3, #ARGV, 2 do
  given[ARGV[i]] = ARGV[i + 1]
  count = count + 1
end
if version == ARGV[2] then
  local same = count == redis.call('HLEN', key('pauses'))
  for scope, record in pairs(given) do
    same = same and redis.call('HGET', key('pauses'), scope) == record
  end
  return same and 'already' or 'late'
end
if tonumber(version) > tonumber(ARGV[2]) or (ARGV[1] ~= '' and ARGV[1] ~= version) then return 'late' end
redis.call('DEL', key('pauses'))
for i = 3, #ARGV, 2 do redis.call('HSET', key('pauses'), ARGV[i], ARGV[i + 1]) end
for _, partition in ipairs(redis.call('HKEYS', key('paused'))) do
  if not pause_of(partition) then redis.call('HDEL', key('paused'), partition) end
end
redis.call('HSET', KEYS[1], 'pause_version', ARGV[2])
return 'done'
