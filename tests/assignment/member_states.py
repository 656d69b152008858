"""What a member knows of itself, with defaults, and what becomes of it by events."""

from collections.abc import Iterable

from assignment.member.messages import Event
from assignment.member.state import ConsumerState, Holding, MemberState, Wait
from assignment.member.transitions import handle
from assignment.types import Claim, HeldState, TargetRow
from tests.builders import fence, partition, partitions, settings

NOW = 50_000
RESTORING, RUNNING = HeldState.RESTORING, HeldState.RUNNING
REVOKING, REVOKED = HeldState.REVOKING, HeldState.REVOKED


def holding(state: HeldState = RUNNING, counter: int = 1, **fields: object) -> Holding:
    values = {"fence": fence(counter), "state": state, "since_ms": NOW}
    return Holding(**(values | fields))  # type: ignore[arg-type]


def claim(number: int, counter: int = 1) -> Claim:
    return Claim(partition(number), fence(counter))


def row(*numbers: int, epoch: int = 7, incarnation: int = 1) -> TargetRow:
    return TargetRow(target_epoch=epoch, incarnation=incarnation, active=partitions(*numbers))


def member(
    held: dict[int, Holding] | None = None, target: Iterable[int] | None = (), **fields: object
) -> MemberState:
    """Joined, ready and just renewed; it waits for those of its target that it does not hold."""
    held = held or {}
    wanted = () if target is None else target
    waiting = {partition(n): Wait(since_ms=NOW, retry_ms=NOW) for n in wanted if n not in held}
    values = {
        "settings": settings(),
        "joined": True,
        "incarnation": 1,
        "mode_epoch": 1,
        "target": None if target is None else row(*target),
        "held": {partition(n): h for n, h in held.items()},
        "waiting": waiting,
        "consumer": ConsumerState.READY,
        "renewed_ms": NOW,
    }
    return MemberState(**(values | fields))  # type: ignore[arg-type]


def after(state: MemberState, *events: Event, now_ms: int = NOW) -> MemberState:
    for event in events:
        state, _ = handle(state, event, now_ms)
    return state
