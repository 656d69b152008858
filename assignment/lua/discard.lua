-- Dead letters that a person discards. ARGV: partition, letter, partition, letter ... Answers of each 1: it is gone
-- now, or 0: it was gone already, so that the same again is harmless.
local done = {}
for i = 1, #ARGV, 2 do
  done[#done + 1] = redis.call('XDEL', key('dead:' .. ARGV[i]), ARGV[i + 1])
end
return done
