"""Scale-downs: those of a group, and how far a running one has come."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q

from assignment.coordinator.reading import claims
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import Drain, Partition
from dashboard.live import groups as live_groups
from dashboard.models import Group, Rebalance, ScaleDown, ScaleDownState
from dashboard.records.queries.pages import CSV_MAX, Page, narrowed, page_of
from dashboard.records.queries.rebalances import PACKED

PAGE = 50
PARTITIONS_SHOWN = 200  # of one leaving member
ROUNDS_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A partition that a leaving member still has, and who is to have it.

    `state`: waiting (nobody learns it yet), learning, ready, or moving (given to `taker`, who waits
    for the lock). What a replica says is None where nothing is known.
    """

    number: int
    state: str
    taker: str | None
    percent: float | None = None
    lag_records: int | None = None
    rate: float | None = None  # events a second
    eta_ms: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """`outcome`: "" while it is here. `told`: what Redis has told it, "" before that."""

    member_id: str
    outcome: str
    at_ms: int | None
    forced: bool
    told: str
    here: bool
    left: int  # partitions that it still has
    ready: int  # of these, with a learner that is ready or an owner that waits
    percent: float | None  # mean of what the learners of its partitions have restored
    eta_ms: int | None  # the longest of them; None: not known, or nothing is left
    partitions: tuple[Left, ...]  # the first PARTITIONS_SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`time_left_ms` is None without a limit and when it ended; at 0 everybody goes at once."""

    scale_down: ScaleDown
    now_ms: int
    deadline_ms: int | None
    time_left_ms: int | None
    members: tuple[Leaving, ...]
    allowed_actions: tuple[str, ...]  # extend, force, abort

    @property
    def left(self) -> int:
        return sum(member.left for member in self.members)

    @property
    def gone(self) -> int:
        return sum(bool(member.outcome) for member in self.members)


def running(group: Group) -> ScaleDown | None:
    return group.scale_downs.filter(state=ScaleDownState.RUNNING).first()


def find(group: Group, pk: int) -> ScaleDown | None:
    return group.scale_downs.filter(pk=pk).first()


def at_moment(group: Group, at_ms: int) -> ScaleDown | None:
    """The one that ran then."""
    asked = group.scale_downs.filter(asked_at_ms__lte=at_ms)
    return asked.filter(Q(ended_at_ms__gte=at_ms) | Q(ended_at_ms=None)).first()


def page(group: Group, before: int | None = None, size: int = PAGE) -> Page[ScaleDown]:
    return page_of(narrowed(group.scale_downs.order_by("-id"), id__lt=before), size)


def every(group: Group) -> Iterator[ScaleDown]:
    """For a file; newest first."""
    return group.scale_downs.order_by("-id")[:CSV_MAX].iterator(chunk_size=500)


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
    deadline_ms = row.deadline_ms if runs else None
    taken, held = _takers(view), claims(view, {})
    members = tuple(
        _leaving(row, view, member, sorted(held.get(member, ())), taken)
        for member in sorted(row.members)
    )
    return Progress(
        scale_down=row,
        now_ms=view.now_ms,
        deadline_ms=deadline_ms,
        time_left_ms=None if deadline_ms is None else max(0, deadline_ms - view.now_ms),
        members=members,
        allowed_actions=_actions(row) if runs else (),
    )


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
    row: ScaleDown,
    view: GroupRead,
    member: str,
    held: list[Partition],
    taken: dict[Partition, tuple[str, bool]],
) -> Leaving:
    entry, here = row.members[member], view.members.get(member)
    mine = [p for p in held if p not in view.locks or view.locks[p].member_id == member]
    of_it = [] if entry["outcome"] else [_left(view, member, p, taken.get(p)) for p in mine]
    percents = [left.percent for left in of_it if left.percent is not None]
    etas = [left.eta_ms for left in of_it]
    known = [eta for eta in etas if eta is not None]
    return Leaving(
        member_id=member,
        outcome=entry["outcome"],
        at_ms=entry["at_ms"],
        forced=entry["forced"],
        told=here.drain.value if here else Drain.NONE.value,
        here=here is not None,
        left=len(of_it),
        ready=sum(left.state in ("ready", "moving") for left in of_it),
        percent=sum(percents) / len(of_it) if percents else None,
        eta_ms=max(known) if known and len(known) == len(etas) else None,
        partitions=tuple(of_it[:PARTITIONS_SHOWN]),
    )


def _left(
    view: GroupRead, member: str, partition: Partition, taker: tuple[str, bool] | None
) -> Left:
    if taker is None or taker[0] == member:
        return Left(number=partition.number, state="waiting", taker=None)
    name, owns = taker
    report, row = view.reports.get(name), view.members.get(name)
    replica = report.replicas.get(partition) if report else None
    state = "moving" if owns else "ready" if row and partition in row.ready else "learning"
    if replica is None:
        return Left(number=partition.number, state=state, taker=name)
    return Left(
        number=partition.number,
        state=state,
        taker=name,
        percent=replica.percent,
        lag_records=None if replica.lag < 0 else replica.lag,
        rate=replica.rate,
        eta_ms=replica.eta_ms,
        why=replica.why,
    )
