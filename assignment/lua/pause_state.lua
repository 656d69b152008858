-- ARGV: partition, ... Answers per partition {scope that pauses it or '', its record (JSON)
-- or '', state: 'paused', 'pausing', 'unowned' or '' (not paused), last granted fence or '0'}. See pause_state.
local answers = {}
for _, partition in ipairs(ARGV) do
  local scope, record = pause_of(partition)
  local grant = grant_of(partition)
  answers[#answers + 1] = {scope or '', record or '', pause_state(partition) or '', grant and grant.fence or '0'}
end
return answers
