-- ARGV: member, the beat that was judged (ms; 0 when it has none), reason. Answers 'ok', 'newer' (it gave a sign of
-- life since) or 'gone'. Reads no row: what cannot be read goes like everything else.
local beat = redis.call('ZSCORE', key('beats'), ARGV[1])
if not beat then
  if redis.call('HEXISTS', key('members'), ARGV[1]) == 0 then return 'gone' end
  beat = '0'
end
if tonumber(beat) > tonumber(ARGV[2]) then return 'newer' end
remove_member(ARGV[1], 'expired', ARGV[3])
return 'ok'
