-- ARGV: member, secret (hex SHA-256), stops ('1': only this process does, another one is expected under its instance
-- name). Answers 'ok', 'stopped' (its rows stay as they are, for instance_timeout_ms; from here on this process is
-- fenced), or 'fenced' when it is not a member under that secret. Whom a scale-down told to leave leaves for good.
local member = ARGV[1]
local stored = redis.call('HGET', key('members'), member)
local row = row_of(stored)
if not row or row['secret'] ~= ARGV[2] then return 'fenced' end
if ARGV[3] ~= '1' or (row['instance'] or '') == '' or (row['drain'] or '') ~= '' then
  remove_member(member, 'released', 'leave')
  return 'ok'
end
end_locks(member, 'released')
row['secret'], row['stopped'], row['ready'] = '', true, ''
row['away_since_ms'] = row['away_since_ms'] or now_ms()
redis.call('HSET', key('members'), member, cjson.encode(row))
forget_report(member)
redis.call('HDEL', key('asked'), member)
hint('released', member) -- somebody may wait for one
ask_look()
return 'stopped'
