-- Dead letters that a person discards. ARGV: partition, letter, partition, letter ... Answers of each 1: it is gone
-- now; 0: it was gone already, so that the same again is harmless; -1: it waits to be replayed, and stays.
local done, waiting = {}, {}
for i = 1, #ARGV, 2 do
  local partition, id = ARGV[i], ARGV[i + 1]
  waiting[partition] = waiting[partition] or asked_in(replays_of(partition))
  done[#done + 1] = waiting[partition][id] and -1 or redis.call('XDEL', key('dead:' .. partition), id)
end
return done
