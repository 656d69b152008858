"""One member's own decisions: from what the target says and what it holds to what it does next.

`transitions.handle(member, event, now_ms)` takes in what happened; `decisions.decide(member,
now_ms)` says what to do about it. Both are pure. `now_ms` is the agent's own monotonic clock; it
decides only how soon things happen: safety lies in the fences (coordination.md section 2). An event
that is late, repeated or about another fence changes nothing. What to do is found from the whole
state each time, so a lost answer needs no memory of its own.
"""
