-- A group made anew after a wipe counts on above what the history holds, and has its last target again. ARGV:
-- highest target_epoch, highest event seq, both as stored in the database; incarnation of the target's rows,
-- then member, row (JSON) ... Answers the group_epoch. Asked before the group is configured: of one that is there
-- already nothing is changed, since its target's rows are of an epoch of their own.
if redis.call('HEXISTS', KEYS[1], 'settings') == 1 then return redis.call('HGET', KEYS[1], 'group_epoch') end
lift_number('group_epoch', ARGV[1])
lift_number('target_epoch', ARGV[1])
lift_number('event_seq', ARGV[2])
if #ARGV > 3 then
  redis.call('DEL', key('target'))
  for i = 4, #ARGV, 2 do redis.call('HSET', key('target'), ARGV[i], ARGV[i + 1]) end
  redis.call('HSET', KEYS[1], 'target_incarnation', ARGV[3])
end
return redis.call('HGET', KEYS[1], 'group_epoch')
