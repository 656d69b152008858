"""What is shown of a group follows from one reading: states and numbers."""

from dataclasses import replace
from typing import Any

import pytest

from assignment.scripts import Applied, GroupRead, Lock, MemberRow, Meta, Report
from assignment.types import Grant, GroupSettings, Held, HeldState, Offset, Partition, TargetRow
from dashboard.live.shown import LiveMember, LivePartition, build

NOW = 1_000_000
P0, P1 = Partition("s", 0), Partition("s", 1)
HELD = {state: Held(fence=7, state=state) for state in HeldState}


def reading(**changes: Any) -> GroupRead:
    """Two partitions; `a` owns the first under fence 7 and runs it."""
    base = GroupRead(
        now_ms=NOW,
        run_id="r",
        meta=Meta(settings=GroupSettings(stream="s", partitions=2), incarnation=1, run_id="r"),
        members={"a": MemberRow(member_id="a", joined_at_ms=1, able=True, able_at_ms=2)},
        beats={"a": NOW - 100},
        reports={
            "a": Report(number=1, sequence=1, at_ms=NOW - 100, owned={P0: HELD[HeldState.RUNNING]})
        },
        asked={},
        target={"a": TargetRow(target_epoch=1, active=frozenset({P0, P1}))},
        grants={P0: Grant(fence=7, member_id="a", until_ms=NOW + 5000)},
        locks={P0: Lock("a", 7, 5000)},
        offsets={P0: Offset(5, 0)},
        applied={P0: Applied(30, NOW - 50)},
        snapshots={},
    )
    return replace(base, **changes)


def shown(read: GroupRead, appended: tuple[int | None, int | None] = (40, 0)) -> Any:
    return build("g", read, {b"s:0": b"7 900000"}, appended)


def partition(read: GroupRead) -> LivePartition:
    return shown(read).partitions[0]


def member(read: GroupRead, name: str = "a") -> LiveMember:
    return next(m for m in shown(read).members if m.id == name)


def reported(state: HeldState) -> dict[str, Report]:
    return {"a": Report(number=1, sequence=1, at_ms=NOW, owned={P0: HELD[state]})}


def test_a_partition_that_runs() -> None:
    row = partition(reading())
    assert (row.state, row.owner, row.fence, row.since_ms, row.target) == (
        "owned", "a", "7", 900_000, "a",
    )  # fmt: skip
    assert (row.offset, row.lag_records, row.committed_at_ms) == ("5-0", 10, NOW - 50)


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (HeldState.RESTORING, "acquiring"),
        (HeldState.RUNNING, "owned"),
        (HeldState.DRAINING, "releasing"),
        (HeldState.DRAINED, "releasing"),
    ],
)
def test_the_state_is_what_the_owner_reports(state: HeldState, word: str) -> None:
    assert partition(reading(reports=reported(state))).state == word


def test_a_lock_that_nobody_reported_yet_is_being_acquired() -> None:
    assert partition(reading(reports={})).state == "acquiring"
    assert partition(reading(locks={P0: Lock("a", 8, 1)})).state == "acquiring", "a newer fence"


def test_without_a_lock_it_is_unowned_whatever_was_reported() -> None:
    row = partition(reading(locks={}))
    assert (row.state, row.owner, row.fence, row.since_ms) == ("unowned", None, None, None)


def test_a_silent_owner_is_unknown_not_gone() -> None:
    row = partition(reading(beats={"a": NOW - 60_000}))
    assert (row.state, row.owner) == ("unknown", "a")


def test_two_that_claim_it_are_a_conflict_at_once() -> None:
    late = Report(
        number=1, sequence=1, at_ms=NOW - 10, owned={P0: Held(fence=6, state=HeldState.RUNNING)}
    )
    read = reading(reports={**reading().reports, "b": late})
    assert partition(read).state == "conflict"
    assert shown(read).numbers.conflicts == 1


def test_a_claim_from_before_the_lock_changed_hands_is_none() -> None:
    early = Report(
        number=1, sequence=1, at_ms=899_999, owned={P0: Held(fence=6, state=HeldState.RUNNING)}
    )
    assert partition(reading(reports={**reading().reports, "b": early})).state == "owned"


def row_of(**changes: Any) -> dict[str, MemberRow]:
    return {"a": replace(reading().members["a"], **changes)}


def consumer(**values: Any) -> dict[str, Report]:
    return {"a": replace(reading().reports["a"], consumer=values)}


MEMBERS = [
    ({}, "alive", ""),
    ({"beats": {"a": NOW - 7000}}, "suspect", "no sign of life for 7000 ms"),
    ({"beats": {"a": NOW - 11_000}}, "lost", "no sign of life for 11000 ms"),
    ({"members": row_of(leaving=True)}, "draining", ""),
    ({"members": row_of(able=False, able_at_ms=0)}, "joining", "its consumer is starting"),
    (
        {"members": row_of(able=False), "reports": consumer(state="dead", why="exit code 3")},
        "not able",
        "exit code 3",
    ),
    (
        {"members": row_of(able=False), "reports": consumer(state="stalled")},
        "stalled",
        "no batch finished although there is lag",
    ),
    (
        {"reports": {"a": replace(reading().reports["a"], at_ms=NOW - 20_000)}},
        "unreachable",
        "renews its locks, but no heartbeat arrives",
    ),
]


@pytest.mark.parametrize(("changes", "state", "why"), MEMBERS)
def test_the_state_of_a_member(changes: dict[str, Any], state: str, why: str) -> None:
    row = member(reading(**changes))
    assert (row.state, row.why) == (state, why)


def test_more_members_than_partitions_is_no_error() -> None:
    names = "abc"
    read = reading(
        members={n: replace(reading().members["a"], member_id=n) for n in names},
        beats=dict.fromkeys(names, NOW),
        target={n: TargetRow(target_epoch=1) for n in names},
    )
    assert member(read, "c").why == "idle: 2 partitions, 3 members"
    assert shown(read).numbers.idle == 3


def test_what_is_not_known_is_none_never_zero() -> None:
    numbers = shown(reading(members={}, beats={}, reports={}), (None, 0)).numbers
    assert (numbers.lag_records, numbers.events_per_second) == (None, None)
    assert (numbers.balance_degree, numbers.score, numbers.max_minus_min) == (None, None, None)


def test_the_numbers() -> None:
    numbers = shown(reading(reports=consumer(rows_per_second=12.5))).numbers
    assert (numbers.partitions, numbers.owned, numbers.unowned) == (2, 1, 1)
    assert (numbers.lag_records, numbers.events_per_second, numbers.applied_total) == (10, 12.5, 30)
