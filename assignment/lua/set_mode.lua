-- Who coordinates from now on. ARGV: incarnation and mode_epoch that are expected, 'server' or 'client', who asks,
-- why. Answers {'done' or 'stale' or 'no_group', incarnation, mode_epoch, coordination} as they are now. That it is
-- so already is done, and changes nothing. Locks, fences, target and group_epoch stay: nothing pauses or moves, and
-- no rebalance is due. What was begun under the mode before, acquire and set_target refuse.
local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'mode_epoch', 'coordination', 'settings')
local incarnation, epoch, mode = meta[1] or '0', meta[2] or '0', meta[3] or ''
if not meta[4] then return {'no_group', incarnation, epoch, mode} end
if incarnation ~= ARGV[1] or epoch ~= ARGV[2] then return {'stale', incarnation, epoch, mode} end
if mode ~= ARGV[3] then
  mode, epoch = ARGV[3], text(tonumber(epoch) + 1)
  redis.call('HSET', KEYS[1], 'coordination', mode, 'mode_epoch', epoch, 'mode_by', ARGV[4], 'mode_reason', ARGV[5])
  -- Agents take the incarnation in hand when no dashboard looked for a while: of a group that rested, nobody could
  -- tell yet.
  if mode == 'client' and redis.call('HEXISTS', KEYS[1], 'identity') == 1 then
    redis.call('HSET', KEYS[1], 'served_ms', text(now_ms()))
  end
  hint('mode', '')
  tell_all('mode')
end
return {'done', incarnation, epoch, mode}
