"""What a group's agents hear of its control stream: one listener for all members of a process.

Each agent has a listener of its own. Here they share one, for the sake of the client: what is done
about a hint is the same, but for locks of others, of which only those hear who were refused one by
that member; what a listener each costs Redis is not played.
"""

import asyncio
from collections.abc import Mapping

import hiredis

from assignment.scripts.values import pairs_of
from assignment.types import Reason
from assignment.wire import GroupKeys
from dashboard.evaluation.beside.speaking import NoAnswer
from dashboard.evaluation.load.lines import RedisLine
from dashboard.evaluation.load.member import LightMember

WAIT_MS = 3_000  # below a line's patience
AWAY_S = 1.0
AT_ONCE = 1_000
GIVEN_UP = (Reason.RELEASED, Reason.EXPIRED)  # a lock, which changes no target


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
    """To all ("") or to one; whose lock was given up is awaited by others."""
    if reason in GIVEN_UP:
        for one in members.values():
            if awaits(one, hinted):
                one.hinted(wants_target=False)
    elif not hinted:
        for one in members.values():
            one.hinted(wants_target=True)
    elif (named := members.get(hinted)) is not None and reason != Reason.REVOKED:
        named.hinted(wants_target=True)


def awaits(member: LightMember, owner: str) -> bool:
    """Whether it was refused a lock by that one, or by nobody known ("": by whomever)."""
    owners = {one.owner for one in member.state.waiting.values()}
    return bool(owners) and (not owner or not owners.isdisjoint(("", owner)))
