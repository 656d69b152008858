-- ARGV: reason, member ('' when none). A person asked: the next plan has something to do.
group_changed(ARGV[1], ARGV[2])
return redis.call('HGET', KEYS[1], 'group_epoch')
