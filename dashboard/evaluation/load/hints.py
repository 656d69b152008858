"""What light members hear: each its own hints and the calls to all, as agents do.

An agent has a connection for it; here MEMBERS_AN_EAR share one, for the sake of the client and of
the server's limit. What is done about a hint is the same.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import hiredis

from assignment.member import pacing
from assignment.scripts.values import pairs_of
from assignment.types import Reason
from assignment.wire import GroupKeys
from dashboard.evaluation.beside.speaking import NoAnswer
from dashboard.evaluation.load.lines import RedisLine
from dashboard.evaluation.load.member import LightMember

MEMBERS_AN_EAR = 100  # whose keys are named anew with each hint to one of them
WAIT_MS = 3_000  # below a line's patience
AWAY_S = 1.0
AT_ONCE = 100
OF_LOCKS = (Reason.RELEASED, Reason.EXPIRED, Reason.REVOKED)  # these change no target


def shares(members: Sequence[LightMember]) -> Iterator[Sequence[LightMember]]:
    """Of one group: those that share an ear."""
    for first in range(0, len(members), MEMBERS_AN_EAR):
        yield members[first : first + MEMBERS_AN_EAR]


async def listen(line: RedisLine, members: Sequence[LightMember]) -> None:
    """For ever. `members` of one group."""
    keys = GroupKeys(line.group)
    hearers = {keys.hints(member.name): [member] for member in members}
    while True:
        try:
            await _listen(line, {keys.calls: members, **hearers})
        except (NoAnswer, hiredis.ReplyError):
            await asyncio.sleep(AWAY_S)


async def _listen(line: RedisLine, hearers: Mapping[str, Sequence[LightMember]]) -> None:
    """`hearers` by stream."""
    ends = await line.ask(*(("XREVRANGE", key, "+", "-", "COUNT", 1) for key in hearers))
    after = {key: end[0][0] if end else b"0-0" for key, end in zip(hearers, ends, strict=True)}
    for members in hearers.values():
        _tell(members, [Reason.TARGET, Reason.RELEASED])
    while True:
        command = ("XREAD", "COUNT", AT_ONCE, "BLOCK", WAIT_MS, "STREAMS", *after, *after.values())
        (found,) = await line.ask(command)
        for name, entries in found or ():
            after[name.decode()] = entries[-1][0]
            hints = [dict(pairs_of(fields)) for _, fields in entries]
            told = max(int(hint.get("members", 0)) for hint in hints)
            _tell(hearers[name.decode()], [hint["reason"].decode() for hint in hints], told)


def _tell(members: Sequence[LightMember], reasons: Iterable[str], told: int = 0) -> None:
    """`told`: how many heard the same, as agents wait then."""
    wants_target = bool(set(reasons).difference(OF_LOCKS))
    for member in members:
        if wait_ms := pacing.called_ms(told, member.phase):
            hinted = partial(member.hinted, wants_target=wants_target)
            member.loop.call_later(wait_ms / 1e3, hinted)
        else:
            member.hinted(wants_target=wants_target)
