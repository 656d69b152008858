-- Ids of a partition's entries go on so many above the last one, so that there are some between them that are no
-- entry's, for ever: what is replayed is committed there, also when no event comes. KEYS: entries. ARGV: how many.
-- Answers the last id.
local EXACT = 9007199254740992 -- Lua's numbers above it are not
local there = redis.call('EXISTS', KEYS[1]) == 1
local ms, seq = string.match(there and stream_facts(KEYS[1])['last-generated-id'] or '0-0', '^(%d+)-(%d+)$')
local high = tonumber(seq) + tonumber(ARGV[1])
local last = high < EXACT and ms .. '-' .. text(high) or text(tonumber(ms) + 1) .. '-' .. ARGV[1]
lift(KEYS[1], last)
return last
