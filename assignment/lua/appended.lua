-- How many events one partition's stream ever got, and the first one that waits. KEYS: entries, producers, both
-- in its slot; ARGV: the committed offset. Answers {events that the producer library counted, entries that it
-- counted, entries ever added or '', id of the first entry after the offset or '', the last id that the stream
-- ever gave or ''}. In here, because XINFO and XRANGE answer with whole entries besides.
local counted = redis.call('HMGET', KEYS[2], ':events', ':entries')
local added, waits, last = counted[2] or '0', nil, ''
if redis.call('EXISTS', KEYS[1]) == 1 then
  local facts = stream_facts(KEYS[1])
  local ever = facts['entries-added']
  added, last = ever and text(ever) or '', facts['last-generated-id']
  waits = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 1)[1]
end
return {counted[1] or '0', counted[2] or '0', added, waits and waits[1] or '', last}
