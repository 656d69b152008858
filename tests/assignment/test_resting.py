"""When a group rests, and what ends that."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from assignment.coordinator import effects
from assignment.coordinator.effects import Effect, RecordsAway
from assignment.coordinator.facts import Finished, GroupRecord, Round, ScaleDown, ScaleDowns, Stay
from assignment.coordinator.resting import NEVER_MS, Glance, Looked, Rest, may_rest_on
from assignment.coordinator.tick import tick
from assignment.scripts.group_read import Gap, GroupRead
from assignment.scripts.rows import Applied
from assignment.types import Coordination
from tests.builders import LEASE_MS, NOW, group, live, partition, settings, standby

NO_GAP = Gap(0, 0)
SESSION_MS = settings().session_timeout_ms
ALL = range(settings().partitions)
ANSWERS: Mapping[type[Effect[Any]], Any] = {
    **dict.fromkeys((effects.KeepOutbox, effects.KeepIncarnation, effects.ReadHeld), False),
    effects.WantHistory: True,
    effects.KeepMode: effects.ModeKept.KNOWN,
    effects.ReadScaleDowns: ScaleDowns(version=0, records=()),
}
LISTS = (effects.ReadRequests, effects.ReadFinished, effects.ReadHints)


def looked(view: GroupRead, answers: Mapping[type[Effect[Any]], Any] | None = None) -> Looked:
    """A tick of what is read so, and of records that have nothing, unless told otherwise."""
    known = [Stay(member_id=m, joined_at_ms=r.joined_at_ms) for m, r in view.members.items()]
    given = {**ANSWERS, effects.ReadStays: tuple(known), **(answers or {})}

    def perform(effect: Effect[Any]) -> Any:
        kind = type(effect)
        if kind is effects.Read:
            return view
        if kind is effects.ReadSettings:
            return view.meta.settings, 1
        answer = given.get(kind, () if kind in LISTS else None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    record = GroupRecord(name="g", settings=view.meta.settings, incarnation=1)
    return effects.run(tick(record, Coordination.SERVER), perform)


def quiet(*members: Any, **changes: Any) -> GroupRead:
    """A group with nothing to do."""
    view = group(*(members or (live("a", owns=ALL),)), group_epoch=7, **changes)
    held = {member: NOW + LEASE_MS for member in view.members}
    return replace(view, counted="7 7", ends=held)


def rest_of(view: GroupRead, **how: Any) -> Rest:
    found = looked(view, **how)
    assert found.rest is not None
    assert not found.waits
    return found.rest


def rests(found: Looked) -> bool:
    return found.rest is not None and not found.waits


def glance_of(view: GroupRead, **changes: Any) -> Glance:
    known = Glance(
        now_ms=NOW,
        run_id=view.run_id,
        counted=view.counted,
        oldest_beat_ms=min(view.beats.values(), default=None),
        next_end_ms=min(view.ends.values(), default=None),
    )
    return known._replace(**changes)


def test_a_group_in_which_nothing_happens_rests() -> None:
    view = quiet()
    rest = rest_of(view)
    assert rest == Rest(looked_ms=NOW, run_id=view.run_id, counted="7 7", patience_ms=SESSION_MS)
    assert may_rest_on(rest, glance_of(view), NO_GAP)


@pytest.mark.parametrize(
    ("changes", "away"),
    [
        ({"counted": "8 7"}, NO_GAP),
        ({"run_id": "another"}, NO_GAP),
        ({"oldest_beat_ms": None}, NO_GAP),
        ({"oldest_beat_ms": NOW - SESSION_MS - 1}, NO_GAP),
        ({"oldest_beat_ms": NOW + 1}, NO_GAP),
        ({"next_end_ms": NOW}, NO_GAP),
        ({"now_ms": NOW - 1, "oldest_beat_ms": NOW - 1}, NO_GAP),
        ({}, Gap(NOW - 5_000, NOW + 1)),
        ({"applied": "1 2"}, NO_GAP),
    ],
)
def test_it_is_looked_at_when_anything_changed_or_a_moment_came(
    changes: dict[str, Any], away: Gap
) -> None:
    view = quiet()
    assert not may_rest_on(rest_of(view), glance_of(view, **changes), away)


def test_an_empty_group_has_no_moments() -> None:
    empty = replace(quiet(live("a")), members={}, beats={}, reports={}, target={}, ends={})
    rest = rest_of(empty)
    assert (rest.patience_ms, rest.due_ms) == (0, NEVER_MS)
    assert may_rest_on(rest, glance_of(empty, now_ms=NOW + 10**9), NO_GAP)


@pytest.mark.parametrize(
    "view",
    [
        quiet(target_epoch=6),
        quiet(live("a", owns=ALL, target={*ALL} - {0}), live("b", target={0})),
    ],
)
def test_a_group_that_waits_for_others_does_not_rest_and_may_be_left_alone(view: GroupRead) -> None:
    found = looked(view)
    assert found.waits
    assert found.rest is not None
    assert may_rest_on(found.rest, glance_of(view), NO_GAP)
    assert not may_rest_on(found.rest, glance_of(view, counted="8 7"), NO_GAP)


@pytest.mark.parametrize(
    "view",
    [
        quiet(live("a", owns=ALL, locked={})),
        quiet(live("a", owns=ALL, target={0, 1})),
        quiet(coordination=Coordination.CLIENT),
        quiet(run_id="another"),
        replace(quiet(target_epoch=6), asked={"a": NOW}),
    ],
)
def test_what_only_time_brings_or_nobody_marks_is_looked_at(view: GroupRead) -> None:
    assert looked(view).rest is None


def test_standbys_that_came_in_the_place_of_others_are_waited_for() -> None:
    def stateful(wanted: int) -> GroupRead:
        owner = live("a", owns=ALL)
        others = [live(m, standby={0}, replicas={0: standby(5)}) for m in "bc"]
        return quiet(owner, *others, settings=settings(stateful=True, standby_replicas=wanted))

    assert rests(looked(stateful(2)))
    assert looked(stateful(1)).rest is None


SCALE_DOWN = ScaleDown(pk=1, asked_at_ms=NOW, members={})
ROUND = Round(pk=1, incarnation=1, target_epoch=7, at_ms=NOW, detect_ms=0)


@pytest.mark.parametrize(
    ("answers", "is_resting"),
    [
        ({effects.KeepOutbox: True}, False),
        ({effects.WantHistory: False}, False),
        ({effects.KeepIncarnation: True}, False),
        ({effects.ReadScaleDowns: ScaleDowns(version=1, records=(SCALE_DOWN,))}, False),
        ({effects.ReadRequests: (object(),)}, False),
        ({effects.ReadStays: RecordsAway()}, False),
        ({effects.WantHistory: False, effects.ReadRound: ROUND}, False),
        ({effects.ReadRound: replace(ROUND, finished_at_ms=NOW)}, True),
        ({effects.ReadRound: replace(ROUND, target_epoch=6)}, True),
    ],
)
def test_what_records_wait_for(answers: dict[type[Effect[Any]], Any], is_resting: bool) -> None:
    found = looked(quiet(target_incarnation=1), answers)
    assert rests(found) is is_resting
    assert found.waits is (answers.get(effects.WantHistory) is False)


def test_a_change_that_may_be_cut_short_is_looked_at_for_a_while() -> None:
    bound = settings(strategy_parameters={"moves_max": 2})
    view = quiet(settings=bound, target_incarnation=1)
    ended = replace(ROUND, finished_at_ms=NOW - 1_000)
    for moved, is_resting in ((1, True), (2, False)):
        answers = {effects.ReadRound: replace(ended, moved=moved)}
        found = looked(view, answers)
        assert (rests(found), found.rest is not None) == (is_resting, is_resting)


def test_a_commit_that_is_awaited_ends_the_rest() -> None:
    view = replace(quiet(), applied={partition(0): Applied(3, NOW - 50_000)})
    finished = (Finished(pk=1, finished_at_ms=NOW - 40_000, moved=frozenset({1, 0})),)
    over = replace(ROUND, finished_at_ms=NOW - 40_000)
    rest = rest_of(view, answers={effects.ReadRound: over, effects.ReadFinished: finished})
    assert rest.awaited == (str(partition(0)), str(partition(1)))
    assert rest.applied == f"3 {NOW - 50_000}|"
    assert may_rest_on(rest, glance_of(view, applied=rest.applied), NO_GAP)
    assert not may_rest_on(rest, glance_of(view, applied=f"4 {NOW}|"), NO_GAP)


def test_of_a_holder_whose_scripts_tell_no_end_the_locks_are_looked_at() -> None:
    view = quiet()
    assert rest_of(replace(view, ends={})).due_ms == NOW + LEASE_MS
    assert rest_of(replace(view, ends={"a": NOW + LEASE_MS + 1})).due_ms == NOW + LEASE_MS


def test_an_instance_is_looked_at_when_it_was_awaited_for_long_enough() -> None:
    timeouts = settings(instance_timeout_ms=SESSION_MS // 2)
    view = quiet(live("a", owns=ALL, away_since_ms=NOW - 1), settings=timeouts)
    row = replace(view.members["a"], instance="a")
    view = replace(view, members={"a": row})
    rest = rest_of(view)
    assert (rest.due_ms, rest.patience_ms) == (NOW - 1 + SESSION_MS // 2, SESSION_MS // 2)


def test_a_look_that_nothing_asked_for_tells_what_nobody_marked() -> None:
    view = quiet()
    rest = rest_of(view)
    assert not looked(view).is_missed(rest, NO_GAP), "it rests on"
    found = looked(view, {effects.KeepOutbox: True})
    assert found.is_missed(rest, NO_GAP)
    assert not found.is_missed(replace(rest, counted="6 6"), NO_GAP), "it was marked meanwhile"
    assert looked(quiet(target_epoch=6)).is_missed(rest, NO_GAP), "nor what it waits for"
    assert not looked(view, {effects.ReadStays: RecordsAway()}).is_missed(rest, NO_GAP)
