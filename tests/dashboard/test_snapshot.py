"""What is shown of a group follows from one reading: states and numbers."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from assignment.scripts.group_read import GroupRead, MemberRow, Meta
from assignment.scripts.held import Lock
from assignment.scripts.reports import Report
from assignment.scripts.rows import Applied, Since
from assignment.types import (
    Drain,
    Grant,
    GroupSettings,
    Held,
    HeldState,
    Offset,
    Partition,
    ReplicaReport,
    Role,
    TargetRow,
)
from assignment.wire import ConsumerHealth
from dashboard.live.cells import LivePartition
from dashboard.live.group_state import STUCK_MS
from dashboard.live.reported import LiveReplica
from dashboard.live.snapshot import LiveMember
from tests.dashboard.columns import built

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
    return built(read, {P0: Since(7, 900_000)}, [(events, None) for events in appended])


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
        (HeldState.RESTORING, "restoring"),
        (HeldState.RUNNING, "owned"),
        (HeldState.REVOKING, "releasing"),
        (HeldState.REVOKED, "releasing"),
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
    return {"a": structs.replace(reading().reports["a"], consumer=ConsumerHealth(**values))}


MEMBERS = [
    ({}, "alive", ""),
    ({"beats": {"a": NOW - 7000}}, "suspect", "no sign of life for 7 s"),
    ({"beats": {"a": NOW - 11_000}}, "lost", "no sign of life for 11 s"),
    ({"members": row_of(leaving=True)}, "draining", ""),
    ({"members": row_of(drain=Drain.FORCED)}, "draining", "forced out"),
    (
        {"members": row_of(drain=Drain.LEAVING)},
        "leaving",
        "told to leave: it stays until others have learned what it owns",
    ),
    ({"members": row_of(able=False, able_at_ms=0)}, "joining", "its consumer is starting"),
    ({"members": row_of(away_since_ms=NOW - 5)}, "joining", "its consumer is starting"),
    (
        {"members": row_of(away_since_ms=NOW - 20_000, stopped=True), "beats": {"a": NOW - 20_000}},
        "stopped",
        "another process is expected within 40 s",
    ),
    (
        {"members": row_of(able=False), "reports": consumer(state="dead", why="exit code 3")},
        "unable",
        "exit code 3",
    ),
    (
        {"members": row_of(able=False), "reports": consumer(state="stalled")},
        "stalled",
        "no batch finished although there is lag",
    ),
    (
        {"reports": {"a": structs.replace(reading().reports["a"], at_ms=NOW - 20_000)}},
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


def test_throughput_is_zero_when_no_batch_ended_for_long() -> None:
    """The last batch may have been quick; it says nothing about now."""
    said = consumer(rows_per_second=12.5)
    long_ago = {P0: Applied(30, NOW - 10_001)}
    assert shown(reading(reports=said, applied=long_ago)).numbers.events_per_second == 0
    assert member(reading(reports=said, applied={})).rows_per_second == 0
    assert member(reading(reports={}, applied=long_ago)).rows_per_second is None


def test_the_numbers() -> None:
    numbers = shown(reading(reports=consumer(rows_per_second=12.5))).numbers
    assert (numbers.partitions, numbers.owned, numbers.unowned) == (2, 1, 1)
    assert (numbers.lag_records, numbers.events_per_second, numbers.applied_total) == (10, 12.5, 30)


# --- replicas -------------------------------------------------------------------------------------


def with_replicas(
    *, given: dict[str, TargetRow], said: dict[Partition, ReplicaReport], **row: Any
) -> GroupRead:
    """`b` beside the owner `a`, with this target and these replicas."""
    joined = MemberRow(member_id="b", joined_at_ms=2, able=True, able_at_ms=3)
    report = Report(number=1, sequence=1, at_ms=NOW, replicas=said)
    return reading(
        members={**reading().members, "b": replace(joined, **row)},
        beats={"a": NOW, "b": NOW},
        reports={**reading().reports, "b": report},
        target=given,
    )


OWNS = TargetRow(target_epoch=1, active=frozenset({P0, P1}))
LEARNS = {"a": OWNS, "b": TargetRow(target_epoch=1, learning=frozenset({P0}))}
HALF = ReplicaReport(role=Role.LEARNER, lag=50, percent=50.5, rate=10.0, eta_ms=5_000)


def test_a_learner_says_how_far_it_is() -> None:
    row = partition(with_replicas(given=LEARNS, said={P0: HALF}))
    assert row.learner == LiveReplica(
        member="b", percent=50.5, lag_records=50, rate=10.0, eta_ms=5_000
    )
    assert (row.owner, row.state, row.standbys) == ("a", "owned", ())


def test_a_learner_that_said_nothing_yet_is_not_at_zero() -> None:
    row = partition(with_replicas(given=LEARNS, said={}))
    assert row.learner == LiveReplica(member="b")
    assert row.learner.percent is None


def test_a_learner_is_ready_when_its_member_calls_for_a_rebalance() -> None:
    read = with_replicas(given=LEARNS, said={P0: HALF}, ready=frozenset({P0}))
    learner = partition(read).learner
    assert learner is not None
    assert learner.ready
    assert (member(read, "b").learning, member(read, "b").learners_ready) == (1, 1)


def test_standbys_are_those_of_the_target_not_what_is_left_over() -> None:
    given = {"a": OWNS, "b": TargetRow(target_epoch=1, standby=frozenset({P0}))}
    kept = replace(HALF, role=Role.STANDBY, lag=-1, ready=True)
    read = with_replicas(given=given, said={P0: kept, P1: kept})
    rows = shown(read).partitions
    (standby,) = rows[0].standbys
    assert (standby.member, standby.lag_records, standby.ready) == ("b", None, True)
    assert (rows[0].learner, rows[1].standbys) == (None, ())
    assert (member(read, "b").standbys, member(read, "b").learning) == (1, 0)


def test_who_was_made_owner_is_the_learner_until_it_has_the_lock() -> None:
    given = {
        "a": TargetRow(target_epoch=2, active=frozenset({P1})),
        "b": TargetRow(target_epoch=2, active=frozenset({P0})),
    }
    learner = partition(with_replicas(given=given, said={P0: HALF})).learner
    assert learner is not None
    assert learner.member == "b"
    read = with_replicas(given=given, said={P0: HALF})
    assert partition(replace(read, locks={P0: Lock("b", 7, 1)})).learner is None
    assert partition(with_replicas(given=given, said={})).learner is None


def test_balance_is_that_of_the_members_that_stay() -> None:
    read = with_replicas(given=LEARNS, said={P0: HALF}, drain=Drain.LEAVING)
    numbers = shown(read).numbers
    assert (numbers.members, numbers.leaving, numbers.learning) == (2, 1, 1)
    assert (numbers.max_minus_min, numbers.balance_degree) == (0, 0.0)
    assert member(read, "b").leaving == "leaving"
    assert member(reading(members=row_of(leaving=True))).leaving == "forced"
    assert member(read, "b").learned_percent == 50.5


@pytest.mark.parametrize(
    ("first_ms", "committed_ms", "held", "stalled"),
    [
        (NOW - STUCK_MS - 1, NOW - STUCK_MS - 1, HeldState.RUNNING, 1),
        (NOW - STUCK_MS - 1, NOW - 50, HeldState.RUNNING, 0),  # behind, and catching up
        (NOW - 50, NOW - STUCK_MS - 1, HeldState.RUNNING, 0),  # the first event after a silence
        (None, NOW - STUCK_MS - 1, HeldState.RUNNING, 0),  # nothing waits
        (NOW - STUCK_MS - 1, NOW - STUCK_MS - 1, HeldState.RESTORING, 0),
    ],
)
def test_a_member_stalls_when_one_of_its_partitions_commits_nothing_while_events_wait(
    first_ms: int | None, committed_ms: int, held: HeldState, stalled: int
) -> None:
    read = reading(applied={P0: Applied(30, committed_ms)}, reports=reported(held))
    found = built(read, {P0: Since(7, 900_000)}, [(40, first_ms), (0, None)])
    assert found.numbers.stalled == stalled
