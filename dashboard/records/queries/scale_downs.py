"""Scale-downs: those of a group, and how far a running one has come."""

from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet

from assignment.coordinator.reading import claims
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import Partition
from dashboard.live import groups as live_groups
from dashboard.live.reported import LiveReplica, replica_of
from dashboard.models import Group, Rebalance, ScaleDown, ScaleDownState
from dashboard.records.queries.pages import Filters, narrowed
from dashboard.records.queries.rebalances import PACKED

PARTITIONS_SHOWN = 200  # of one leaving member
ROUNDS_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A partition that a leaving member still has, and who is to have it.

    `state`: waiting (nobody learns it yet), learning, ready, or moving (given to who learned it,
    who waits for the lock).
    """

    number: int
    state: str
    taker: LiveReplica | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """`outcome`: "" while it is here."""

    member_id: str
    outcome: str
    at_ms: int | None
    forced: bool
    left: int = 0  # partitions that it still has
    ready: int = 0  # of these, with a learner that is ready or an owner that waits
    percent: float | None = None  # mean of what the learners of its partitions have restored
    eta_ms: int | None = None  # the longest of them; None: not known, or nothing is left
    partitions: tuple[Left, ...] = ()  # the first PARTITIONS_SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`deadline_ms` is None without a limit and when it ended."""

    now_ms: int
    deadline_ms: int | None
    members: tuple[Leaving, ...]
    allowed_actions: tuple[str, ...]  # extend, force, abort

    @property
    def left(self) -> int:
        return sum(member.left for member in self.members)


def at_moment(group: Group, at_ms: int) -> ScaleDown | None:
    """The one that ran then."""
    asked = group.scale_downs.filter(asked_at_ms__lte=at_ms)
    return asked.filter(Q(ended_at_ms__gte=at_ms) | Q(ended_at_ms=None)).first()


def found(group: Group, filters: Filters) -> QuerySet[ScaleDown]:
    """Newest first."""
    asked = {"asked_at_ms__gte": filters.from_ms, "asked_at_ms__lt": filters.to_ms}
    return narrowed(group.scale_downs.order_by("-id"), id__lt=filters.before, **asked)


def rounds(row: ScaleDown) -> list[Rebalance]:
    """The group's rebalances since it was asked, until it ended; the newest ROUNDS_SHOWN first."""
    found = Rebalance.objects.filter(group=row.group_id, at_ms__gte=row.asked_at_ms)
    if row.ended_at_ms is not None:
        found = found.filter(at_ms__lte=row.ended_at_ms)
    return list(found.defer(*PACKED)[:ROUNDS_SHOWN])


def progress(row: ScaleDown) -> Progress:
    """Live. Raises StoreUnavailable."""
    return progress_of(row, live_groups.read(row.group.name, Purpose.LOOK))


def progress_of(row: ScaleDown, view: GroupRead) -> Progress:
    """Pure: everything shown follows from the record and one reading."""
    runs = row.state == ScaleDownState.RUNNING
    taken, held = _takers(view), claims(view, {})
    return Progress(
        now_ms=view.now_ms,
        deadline_ms=row.deadline_ms if runs else None,
        members=tuple(
            _leaving(member, view, sorted(held.get(member.member_id, ())), taken)
            for member in recorded(row)
        ),
        allowed_actions=_actions(row) if runs else (),
    )


def recorded(row: ScaleDown) -> tuple[Leaving, ...]:
    """What the record says of each, where nothing more is known."""
    return tuple(Leaving(member_id=m, **entry) for m, entry in sorted(row.members.items()))


def _actions(row: ScaleDown) -> tuple[str, ...]:
    waiting = any(not row.members[m]["forced"] for m in row.remaining())
    limited = row.timeout_ms is not None
    wanted = (("extend", waiting and limited), ("force", waiting), ("abort", True))
    return tuple(action for action, allowed in wanted if allowed)


def _takers(view: GroupRead) -> dict[Partition, tuple[str, bool]]:
    """Partition -> who learns it, or who was made its owner; and whether it is the owner."""
    found = {p: (member, True) for member, row in view.target.items() for p in row.active}
    for member, row in view.target.items():
        found |= {p: (member, False) for p in row.learning}
    return found


def _leaving(
    leaving: Leaving,
    view: GroupRead,
    held: list[Partition],
    taken: dict[Partition, tuple[str, bool]],
) -> Leaving:
    if leaving.outcome:
        return leaving
    member = leaving.member_id
    mine = [p for p in held if p not in view.locks or view.locks[p].member_id == member]
    of_it = [_left(view, member, p, taken.get(p)) for p in mine]
    takers = [left.taker for left in of_it if left.taker]
    percents = [taker.percent for taker in takers if taker.percent is not None]
    etas = [taker.eta_ms for taker in takers if taker.eta_ms is not None]
    return replace(
        leaving,
        left=len(of_it),
        ready=sum(left.state in ("ready", "moving") for left in of_it),
        percent=sum(percents) / len(of_it) if percents else None,
        eta_ms=max(etas) if etas and len(etas) == len(of_it) else None,
        partitions=tuple(of_it[:PARTITIONS_SHOWN]),
    )


def _left(
    view: GroupRead, member: str, partition: Partition, taker: tuple[str, bool] | None
) -> Left:
    if taker is None or taker[0] == member:
        return Left(number=partition.number, state="waiting", taker=None)
    name, owns = taker
    row = view.members.get(name)
    state = "moving" if owns else "ready" if row and partition in row.ready else "learning"
    return Left(number=partition.number, state=state, taker=replica_of(view, name, partition))
