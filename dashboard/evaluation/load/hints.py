"""What a group's agents hear of its control stream: one listener for all members of a process.

Each agent has a listener of its own. Here they share one, for the sake of the client: what is done
about a hint is the same, and what a listener each costs Redis is not played.
"""

import asyncio
from collections.abc import Mapping

import hiredis

from assignment.reasons import GIVEN_UP, OF_LOCKS
from assignment.scripts.values import pairs_of
from assignment.wire import GroupKeys
from dashboard.evaluation.beside.speaking import NoAnswer
from dashboard.evaluation.load.lines import RedisLine
from dashboard.evaluation.load.member import LightMember

WAIT_MS = 3_000  # below a line's patience
AWAY_S = 1.0
AT_ONCE = 1_000


async def listen(line: RedisLine, members: Mapping[str, LightMember]) -> None:
    """For ever. `members` of one group, by name."""
    control = GroupKeys(line.group).control
    while True:
        try:
            (last,) = await line.ask(("XREVRANGE", control, "+", "-", "COUNT", 1))
            after = last[0][0] if last else b"0-0"
            while True:
                after = await _next(line, control, after, members)
        except (NoAnswer, hiredis.ReplyError):
            await asyncio.sleep(AWAY_S)


async def _next(
    line: RedisLine, control: str, after: bytes, members: Mapping[str, LightMember]
) -> bytes:
    command = ("XREAD", "COUNT", AT_ONCE, "BLOCK", WAIT_MS, "STREAMS", control, after)
    (found,) = await line.ask(command)
    if not found:
        return after
    (_, entries) = found[0]
    hints = [dict(pairs_of(fields)) for _, fields in entries]
    heard = {(hint["reason"].decode(), hint["member"].decode()) for hint in hints}
    for reason, member_id in heard:
        _hint(reason, member_id, members)
    last: bytes = entries[-1][0]
    return last


def _hint(reason: str, hinted: str, members: Mapping[str, LightMember]) -> None:
    """As assignment.reasons.concerns: who waits hears of every lock that was given up."""
    if hinted and reason not in GIVEN_UP:
        one = members.get(hinted)
        if one is not None:
            one.hinted(wants_target=reason not in OF_LOCKS)
        return
    for one in members.values():
        if not hinted or one.state.waiting or reason not in OF_LOCKS:
            one.hinted(wants_target=reason not in OF_LOCKS)
