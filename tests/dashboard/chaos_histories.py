"""Histories of a struck group as values: one that is right, to be broken by tests."""

from dataclasses import dataclass, field, replace
from typing import Any

from assignment.scripts.lock_events import LockEvent
from assignment.types import INCARNATION_STEP, START, Offset, Partition
from assignment.wire import ChangelogEntry, pack_changes, pack_ids
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.chaos.eye import Sample
from dashboard.evaluation.chaos.history import Answer, History, Struck, Target
from dashboard.evaluation.judge import Appended, Content

P0, P1 = Partition("chaos", 0), Partition("chaos", 1)
ONE, TWO = "light-1-aaaaaa", "light-2-bbbbbb"
STRUCK, HEALED, ENDED = 10_000, 12_000, 20_000
FENCE = INCARNATION_STEP + 1


def happened(
    kind: str, at_ms: int, member: str, fence: int, partition: Partition = P0
) -> LockEvent:
    return LockEvent(
        entry_id=f"{at_ms}-{partition.number}",
        seq=at_ms,
        kind=kind,
        partition=partition,
        member_id=member,
        fence=fence,
        at_ms=at_ms,
    )


def commit(
    at_ms: int, fence: int, first: int, last: int, *, counted: int | None = None
) -> ChangelogEntry:
    """Of the events after `first` up to `last`, whose offsets are their numbers; `counted`: how
    many the state knows then.
    """
    value = {"events": last if counted is None else counted, "last_id": last}
    return ChangelogEntry(
        entry_id=f"{at_ms}-0",
        from_offset=Offset(first, 0) if first else START,
        to_offset=Offset(last, 0),
        fence=fence,
        total=last,
        events=last - first,
        changes=pack_changes({"key": value}),
        ids=pack_ids(range(first + 1, last + 1)),
    )


def sample(at_ms: int, owners: dict[Partition, tuple[str, int]], **more: Any) -> Sample:
    values = {
        "at_ms": at_ms,
        "run_id": "run",
        "locks": {str(p): held for p, held in owners.items()},
        "target": {str(p): member for p, (member, _) in owners.items()},
        "members": {ONE: True, TWO: True},
        "lag": 0,
    }
    return Sample(**{**values, **more})


def appended(count: int) -> list[Appended]:
    return [Appended(Offset(n, 0), (n,)) for n in range(1, count + 1)]


@dataclass
class Scene:
    """light-1 has partition 0 and is struck at 10 s; light-2, which has partition 1, takes it over
    at 11 s, and gives it back at 13 s.
    """

    events: list[LockEvent] = field(default_factory=list)
    commits: list[ChangelogEntry] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    answers: list[Answer] | None = None
    acknowledged: int = 4
    hurt: tuple[str, ...] = ("light-1",)
    asked: Asked = field(
        default_factory=lambda: Asked(faults=("minor-kill",), agents=2, partitions=2, fast=True)
    )
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.events = [
            happened("acquired", 1_000, ONE, FENCE),
            happened("acquired", 1_000, TWO, FENCE, P1),
            happened("expired", 10_900, ONE, FENCE),
            happened("acquired", 11_000, TWO, FENCE + 1),
            happened("released", 12_900, TWO, FENCE + 1),
            happened("acquired", 13_000, ONE, FENCE + 2),
        ]
        self.commits = [
            commit(2_000, FENCE, 0, 1),
            commit(9_000, FENCE, 1, 2),
            commit(11_500, FENCE + 1, 2, 3),
            commit(14_000, FENCE + 2, 3, 4),
        ]
        held = (P1, (TWO, FENCE))
        self.samples = [
            sample(9_500, {P0: (ONE, FENCE), held[0]: held[1]}),
            sample(10_950, {held[0]: held[1]}),
            sample(12_500, {P0: (TWO, FENCE + 1), held[0]: held[1]}),
            sample(13_500, {P0: (ONE, FENCE + 2), held[0]: held[1]}),
            sample(19_500, {P0: (ONE, FENCE + 2), held[0]: held[1]}),
        ]

    @property
    def content(self) -> Content:
        return Content(
            stream={P0: appended(4)},
            commits={P0: self.commits},
            offsets={P0: self.commits[-1].to_offset},
            events=self.events,
        )

    def history(self, **changes: Any) -> History:
        struck = Struck(
            name=self.asked.faults[0],
            victims=self.hurt,
            at_ms=STRUCK,
            healed_ms=HEALED,
            worked=True,
        )
        made = History(
            asked=self.asked,
            began_ms=5_000,
            struck_ms=STRUCK,
            healed_ms=HEALED,
            ended_ms=ENDED,
            faults=(struck,),
            eras=(self.content,),
            acknowledged=frozenset(range(1, self.acknowledged + 1)),
            samples=tuple(self.samples),
            answers=None if self.answers is None else tuple(self.answers),
            targets=(target(1, 900), target(2, 11_000), target(3, 12_800)),
        )
        return replace(made, **{**self.more, **changes})


def target(epoch: int, at_ms: int, owners: tuple[str | None, ...] = (ONE, TWO)) -> Target:
    return Target(
        incarnation=1,
        epoch=epoch,
        at_ms=at_ms,
        cause="join",
        owners=owners,
        moved=1,
        avoidable=0,
        phases={"detect": 5},
    )
