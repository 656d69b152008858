"""What members report, and what makes a plan outdated (coordination.md section 3)."""

from dataclasses import replace

import pytest

from assignment import sizes
from assignment.scripts import heartbeat
from assignment.scripts.group_read import Purpose
from assignment.scripts.reports import REPORTED_EPOCHS
from assignment.troubles import Unserved, UnservedReason
from assignment.types import Held, HeldState, ReplicaReport, Role, read_as
from assignment.wire import ConsumerHealth, Heartbeat, Status, parse_settings
from tests.contract.world import P0, P1, P2, World

OK, FENCED, LATE = Status.OK, Status.FENCED, Status.LATE
RUNNING = HeldState.RUNNING


def test_a_report_of_a_stranger_or_under_another_secret_touches_nothing(alone: World) -> None:
    before = alone.read()
    alone.pass_ms(2)
    assert alone.report("stranger", 1).status is FENCED
    assert alone.report("a", 1, secret="other", able=True).status is FENCED
    assert replace(alone.read(), now_ms=before.now_ms) == before


def test_settings_are_told_to_whoever_has_those_of_another_epoch_or_incarnation(
    alone: World,
) -> None:
    meta = alone.read().meta
    has = {"incarnation": meta.incarnation, "settings_epoch": meta.settings_epoch}
    assert alone.report("a", 1, **has).settings is None
    others = has | {"settings_epoch": 0}, has | {"incarnation": meta.incarnation + 1}
    for sequence, lacks in enumerate(others, 2):
        told = alone.report("a", sequence, **lacks)
        assert parse_settings(bytes(told.settings).decode()) == meta.settings


def test_a_complete_report_is_stored_and_no_longer_asked_for(alone: World) -> None:
    owned = {str(P0): "7 running"}
    answer = alone.report("a", 3, report=2, owned=owned, consumer={"batch": 4})
    assert (answer.status, answer.want_complete) == (OK, False)
    group = alone.read()
    report = group.reports["a"]
    assert (report.number, report.sequence) == (2, 3)
    assert report.owned == {P0: Held(fence=7, state=RUNNING)}
    assert report.consumer == ConsumerHealth(batch=4)
    assert group.asked == {}
    assert report.at_ms == group.beats["a"]


@pytest.mark.parametrize("waits", [True, False])
def test_a_plan_that_waited_for_a_report_is_due_when_it_has_come(alone: World, waits: bool) -> None:
    """Once: who says all that it owns unasked keeps no plan waiting."""
    alone.report("a", 1, able=True)
    alone.assign(a={P0})
    alone.report("a", 2, able=True, report=2)
    alone.report("a", 3, able=True, report=7, complete=False)
    assert "a" in alone.read().asked
    if waits:
        alone.request_rebalance()
    assert alone.report("a", 4, able=True, report=8).rebalance_due == waits
    assert not alone.report("a", 5, able=True, report=9).rebalance_due


def test_changes_lie_over_the_complete_report_and_replace_the_changes_before(alone: World) -> None:
    held = {str(P0): "7 running", str(P1): "8 running"}
    alone.report("a", 1, owned=held, consumer={"why": "größer ☂"})
    changes = {str(P0): None, str(P2): "9 restoring"}
    alone.report("a", 2, complete=False, owned=changes, consumer={"why": "né"})
    report = alone.read().reports["a"]
    assert report.owned == {
        P1: Held(fence=8, state=RUNNING),
        P2: Held(fence=9, state=HeldState.RESTORING),
    }
    assert report.consumer == ConsumerHealth(why="né")
    alone.report("a", 3, complete=False, owned={})
    report = alone.read().reports["a"]
    assert (set(report.owned), report.consumer) == ({P0, P1}, ConsumerHealth())


def test_changes_to_an_unknown_complete_report_are_answered_with_a_wish_for_one(
    alone: World,
) -> None:
    since = alone.read().asked["a"]
    alone.pass_ms(2)
    assert alone.report("a", 1, complete=False).want_complete
    assert alone.read().asked["a"] == since, "the time of the first wish"
    alone.report("a", 2, report=1)
    assert alone.report("a", 3, report=2, complete=False).want_complete
    group = alone.read()
    assert (group.reports["a"].number, "a" in group.asked) == (1, True)
    assert not alone.report("a", 4, report=3).want_complete
    assert alone.read().asked == {}


@pytest.mark.parametrize("sequence", [4, 5])
def test_a_report_that_comes_late_or_twice_changes_nothing(alone: World, sequence: int) -> None:
    alone.report("a", 5, owned={str(P0): "7 running"}, able=True)
    before = alone.group_epoch()
    assert alone.report("a", sequence, owned={}, able=False).status is LATE
    group = alone.read()
    assert list(group.reports["a"].owned) == [P0]
    assert group.members["a"].able
    assert group.meta.group_epoch == before


def test_ability_and_leaving_make_a_plan_outdated_only_when_they_change(alone: World) -> None:
    before = alone.group_epoch()
    assert not alone.report("a", 1).rebalance_due
    assert alone.group_epoch() == before
    assert alone.report("a", 2, able=True).rebalance_due
    assert alone.group_epoch() == before + 1
    assert not alone.report("a", 3, able=True).rebalance_due
    assert alone.report("a", 4, able=True, leaving=True).rebalance_due
    assert alone.report("a", 5, able=False, leaving=True).rebalance_due
    assert alone.group_epoch() == before + 3
    row = alone.read().members["a"]
    assert (row.able, row.leaving) == (False, True)


def test_what_a_member_cannot_serve_makes_a_plan_outdated_when_it_changes(alone: World) -> None:
    before = alone.group_epoch()
    disk = Unserved(reason=UnservedReason.RESTORE, left_ms=9_000, why="disk")
    values = {"reason": "restore", "left_ms": 9_000, "why": "disk"}
    assert alone.report("a", 1, unserved={str(P1): values, str(P0): values}).rebalance_due
    group = alone.read()
    assert group.members["a"].unserved == {P0, P1}
    assert group.reports["a"].unserved[P0] == disk
    assert not alone.report("a", 2, unserved={str(P0): values, str(P1): values}).rebalance_due
    assert alone.report("a", 3, complete=False).rebalance_due
    assert not alone.read().members["a"].unserved
    assert alone.group_epoch() == before + 2


def test_a_member_remembers_when_it_last_became_able(alone: World) -> None:
    alone.report("a", 1, able=True)
    first = alone.read().members["a"].able_at_ms
    alone.pass_ms(2)
    alone.report("a", 2, able=True)
    assert alone.read().members["a"].able_at_ms == first
    alone.report("a", 3, able=False)
    alone.report("a", 4, able=True)
    row = alone.read().members["a"]
    assert row.able_at_ms > first
    assert row.joined_at_ms < first + 1


def test_the_answer_has_the_epochs_and_a_target_only_for_who_has_another(alone: World) -> None:
    epoch = alone.read().meta.target_epoch
    answer = alone.report("a", 1, incarnation=1, target_epoch=epoch - 1)
    assert (answer.incarnation, answer.mode_epoch, answer.settings_epoch) == (1, 1, 1)
    assert (answer.group_epoch, answer.target_epoch) == (alone.group_epoch(), epoch)
    assert answer.target is not None
    assert (answer.target.target_epoch, answer.target.active) == (epoch, {P0})
    assert alone.report("a", 2, incarnation=1, target_epoch=epoch).target is None
    assert alone.report("a", 3, target_incarnation=0, target_epoch=epoch).target is not None


A_TARGET, SETTINGS, A_LOOK = "a target", "settings", "a look"


@pytest.mark.parametrize(
    ("name", "by", "brings"),
    [
        ("target_epoch", -1, {A_TARGET}),
        ("target_epoch", 10, {A_TARGET, A_LOOK}),
        ("target_incarnation", -1, {A_TARGET}),
        ("settings_epoch", -1, {SETTINGS}),
        ("settings_epoch", 1, {SETTINGS, A_LOOK}),
        ("mode_epoch", -1, set()),
        ("mode_epoch", 1, {A_LOOK}),
        ("incarnation", -1, {SETTINGS}),
        ("incarnation", 1, {SETTINGS, A_LOOK}),
    ],
)
def test_who_knows_all_numbers_but_one_is_told_what_that_one_stands_for(
    alone: World, name: str, by: int, brings: set[str]
) -> None:
    """And of one that is ahead of Redis, which may have lost it, the group is looked at."""
    meta = alone.read().meta
    known = {field: getattr(meta, field) for field in REPORTED_EPOCHS}
    alone.report("a", 1, **known)
    before = alone.read().counted

    def brought(sequence: int, **numbers: int) -> set[str]:
        told = alone.report("a", sequence, **numbers)
        found = {A_TARGET: told.target, SETTINGS: told.settings}
        found[A_LOOK] = alone.read().counted != before or None
        return {what for what, it in found.items() if it is not None}

    assert brought(2, **known) == set()
    assert brought(3, **known | {name: known[name] + by}) == brings


def test_a_missing_target_is_never_sent_as_an_empty_one(alone: World) -> None:
    alone.join("late")
    answer = alone.report("late", 1)
    assert (answer.status, answer.target) == (OK, None)
    alone.assign(a={P0})
    target = alone.report("late", 2).target
    assert target is not None and target.active == frozenset()


# --- replicas, and learners that are ready --------------------------------------------------------

LEARNER = {"role": "learner", "lag": 40, "percent": 12.5, "rate": 900.0, "eta_ms": 44}
READY = {"role": "learner", "lag": 0, "percent": 100, "ready": True}


def test_replicas_are_stored_whole_with_every_report(alone: World) -> None:
    standby = {"role": "standby", "lag": 0, "percent": 100, "why": "größer ☂"}
    alone.report("a", 1, replicas={str(P1): LEARNER, str(P2): standby})
    assert alone.read().reports["a"].replicas == {
        P1: ReplicaReport(role=Role.LEARNER, lag=40, percent=12.5, rate=900.0, eta_ms=44),
        P2: ReplicaReport(role=Role.STANDBY, lag=0, percent=100, why="größer ☂"),
    }
    alone.report("a", 2, complete=False, replicas={str(P1): LEARNER})
    assert list(alone.read().reports["a"].replicas) == [P1]
    alone.report("a", 3, complete=False)
    assert alone.read().reports["a"].replicas == {}


def test_a_learner_that_becomes_ready_makes_a_plan_outdated_once(alone: World) -> None:
    alone.report("a", 1, replicas={str(P1): LEARNER, str(P2): LEARNER})
    before = alone.group_epoch()
    both = {str(P1): READY, str(P2): READY}
    assert alone.report("a", 2, replicas=both, ready=[str(P2)]).rebalance_due
    assert alone.read().members["a"].ready == {P2}
    assert not alone.report("a", 3, replicas=both, ready=[str(P2)]).rebalance_due
    assert alone.group_epoch() == before + 1
    assert alone.report("a", 4, replicas=both, ready=[str(P2), str(P1)]).rebalance_due
    assert not alone.report("a", 5, replicas=both, ready=[str(P1)]).rebalance_due
    assert alone.read().members["a"].ready == {P1}
    assert alone.report("a", 6, replicas=both, ready=[str(P1), str(P2)]).rebalance_due
    assert alone.group_epoch() == before + 3
    assert alone.changes()[-3:] == [("ready", "a")] * 3


def say_much(world: World, member: str, sequence: int, letters: int) -> bool:
    """In a group of no partition at all; whether it was kept."""
    said = {"member": member, "secret": "secret", "sequence": sequence, "report": 1}
    why = {"why": "w" * letters}
    beat = read_as(Heartbeat, said | {"complete": True, "consumer": why})
    return not world.run(heartbeat.report(beat, partitions=0)).too_large


def test_all_members_together_keep_no_more_than_their_partitions_need(
    alone: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "MEMBER_BYTES", 2)  # 2,000 in all
    alone.join("b")
    assert say_much(alone, "a", 1, 980)
    before, asked = alone.read().reports["a"], alone.read().asked
    alone.pass_ms(2)
    assert not say_much(alone, "b", 1, 980)
    assert say_much(alone, "b", 2, 10)
    assert not say_much(alone, "b", 3, 980), "nor does it grow to that"
    assert alone.read().reports["a"] == before
    assert "b" in asked and "b" not in alone.read().asked
    assert say_much(alone, "a", 2, 980), "as large as before is no more"
    alone.leave("a")
    assert say_much(alone, "b", 4, 980)


def test_what_is_written_beside_the_scripts_counts_from_the_next_tick(
    alone: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "MEMBER_BYTES", 2)
    alone.door.ask("HSET", alone.keys.reports, "nobody", "x" * 1_900)
    assert say_much(alone, "a", 1, 10)
    alone.read(Purpose.TICK)
    assert not say_much(alone, "a", 2, 400)
