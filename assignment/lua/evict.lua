-- ARGV: member, the beat that was judged (ms), reason. Answers 'ok', 'newer' (it gave a sign of life
-- since) or 'gone'.
local beat = redis.call('ZSCORE', key('beats'), ARGV[1])
if not beat then return 'gone' end
if tonumber(beat) > tonumber(ARGV[2]) then return 'newer' end
remove_member(ARGV[1], 'expired', ARGV[3])
return 'ok'
