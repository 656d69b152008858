"""What the dashboard makes of a member's heartbeat, and what it answers."""

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import msgspec

from assignment import sizes, wire
from assignment.errors import InvalidInput
from assignment.scripts import replies
from assignment.scripts.dashboard_side import REASON_MAX, secret_digest
from assignment.scripts.reports import REPORTED_EPOCHS, Said, check_troubles
from assignment.scripts.values import (
    FENCE_MAX,
    INCARNATION_MAX,
    Arguments,
    Call,
    Raw,
    check_within,
    fence_text,
    flag,
    text_of,
    texts_of,
)
from assignment.troubles import UNSERVED_MAX
from assignment.types import PARTITIONS_MAX, Partition, Role, valid_name


class Reported(NamedTuple):
    """`rebalance_due`: a plan depends on what changed, or waited for this report. `too_large`:
    nothing of it was kept.
    """

    reply: wire.Reply
    rebalance_due: bool = False
    too_large: bool = False


# Of a heartbeat, with the highest that each may be; REPORTED_EPOCHS first.
NUMBERS = {
    **{n: INCARNATION_MAX if "incarnation" in n else FENCE_MAX for n in REPORTED_EPOCHS},
    "report": FENCE_MAX,
    "sequence": FENCE_MAX,
}
LOWEST_MAX = min(NUMBERS.values())
_numbers_of = attrgetter(*NUMBERS)
_encode = msgspec.json.Encoder().encode
SEQUENCE = 3  # its place among the arguments
OF_GROUP, TARGET, SETTINGS = 12, 7, 11  # of what a heartbeat is answered: how many, and where
USUAL_KEPT, USUAL_BYTES = 4_096, 256  # who may write to a group's keys makes them no larger


def report(beat: wire.Heartbeat, partitions: int = PARTITIONS_MAX) -> Call[Reported]:
    """Of a group with so many. InvalidInput for a wrong part of it."""
    numbers = _numbers_of(beat)
    if min(numbers) < 0 or max(numbers) > LOWEST_MAX:
        for number, (name, most) in zip(numbers, NUMBERS.items(), strict=True):
            check_within(name, number, 0, most)
    for partition, held in beat.owned.items():
        Partition.parse(partition)
        if held is not None:
            fence_text(wire.parse_held(held).fence)
    for partition in beat.replicas:
        Partition.parse(partition)
    check_troubles(beat.consumer)  # pages read them as they are stored
    said = Said(
        incarnation=beat.incarnation,
        mode_epoch=beat.mode_epoch,
        settings_epoch=beat.settings_epoch,
        target_incarnation=beat.target_incarnation,
        target_epoch=beat.target_epoch,
        owned=beat.owned,
        consumer=beat.consumer,
        unable=beat.unable[:REASON_MAX],
        replicas=beat.replicas,
        unserved=beat.unserved,
    )
    arguments: Arguments = [
        valid_name("member", beat.member),
        secret_digest(beat.secret),
        str(beat.report),
        str(beat.sequence),
        "complete" if beat.complete else "changes",
        _encode(said),
        flag(beat.able),
        flag(beat.leaving),
        *map(str, (beat.target_incarnation, beat.target_epoch)),
        " ".join(_ready_learners(beat)) if beat.ready else "",
        " ".join(_unserved(beat)) if beat.unserved else "",
        str(sizes.reports_max(partitions)),
        *map(str, (beat.incarnation, beat.mode_epoch, beat.settings_epoch)),
    ]
    return Call("report", arguments, _reported)


def _unserved(beat: wire.Heartbeat) -> list[str]:
    if len(beat.unserved) > UNSERVED_MAX:
        raise InvalidInput(f"unserved: {len(beat.unserved)} partitions, above {UNSERVED_MAX}")
    return wire.sorted_texts(Partition.parse(text) for text in beat.unserved)


def _ready_learners(beat: wire.Heartbeat) -> list[str]:
    roles = {Partition.parse(p): replica.role for p, replica in beat.replicas.items()}
    learners = {Partition.parse(text) for text in beat.ready}
    for partition in sorted(learners):
        if roles.get(partition) is not Role.LEARNER:
            raise InvalidInput(f"{partition} is said to be ready and is no learner of this member")
    return wire.sorted_texts(learners)


def _reported(raw: Raw) -> Reported:
    """As long as nothing happens to a group all its members are answered the same."""
    is_usual = len(raw) == OF_GROUP and not raw[TARGET] and not raw[SETTINGS]
    if is_usual and sum(map(len, raw)) <= USUAL_BYTES:
        return _usual(tuple(raw))
    return _as_reported(raw)


@lru_cache(USUAL_KEPT)
def _usual(raw: tuple[Raw, ...]) -> Reported:
    return _as_reported(raw)


def _as_reported(raw: Sequence[Raw]) -> Reported:
    said = text_of(raw[0])
    if said == "large":
        return Reported(wire.Reply(status=wire.Status.LATE), too_large=True)
    status = wire.Status(said)
    if status is not wire.Status.OK:
        return Reported(wire.Reply(status=status))
    *epochs, wanted, target, due, drain, identity, settings = texts_of(raw[1:])
    reply = replies.of_group(
        epochs,
        identity,
        settings,
        want_complete=wanted == "1",
        target=msgspec.Raw(target) if target else None,
        drain=drain,
    )
    return Reported(reply, due == "1")
