"""Membership, reports and what makes a plan outdated (coordination.md sections 2 and 3)."""

from dataclasses import replace
from typing import Any

import pytest

from assignment.errors import InvalidInput
from assignment.scripts import (
    EvictResult,
    JoinResult,
    Marked,
    Purpose,
    ReportResult,
    progress_args,
    report_args,
)
from assignment.types import START, Claim, CopyReport, Drain, Held, HeldState, Role, TargetRow
from assignment.wire import ConsumerHealth
from tests.contract.world import LONG_MS, P0, P1, P2, World, offset

OK, FENCED, LATE = ReportResult.OK, ReportResult.FENCED, ReportResult.LATE
RUNNING = HeldState.RUNNING


# --- join and leave -------------------------------------------------------------------------------


def test_join_is_refused_until_the_group_is_configured(world: World) -> None:
    assert world.join("a").result is JoinResult.NO_GROUP
    world.configure()
    assert world.join("a").result is JoinResult.OK


def test_a_group_is_configured_whole_even_when_its_meta_was_touched_before(world: World) -> None:
    world.commit(P0, 7, START, offset(1))  # refused, and counted in meta
    world.configure()
    meta = world.read().meta
    assert (meta.coordination, meta.mode_epoch, meta.group_epoch) == ("server", 1, 1)
    assert (meta.target_epoch, meta.coordinator_epoch, meta.settings_epoch) == (0, 0, 1)


def test_join_makes_a_row_a_beat_and_a_wish_for_a_complete_report(world: World) -> None:
    world.configure()
    joined = world.join("a", host="h/1", zone="z", capacity=0.1, pid=7, version="1 2")
    group = world.read()
    row = group.members["a"]
    assert (row.host, row.zone, row.capacity, row.pid) == ("h/1", "z", 0.1, 7)
    assert (row.able, row.leaving, row.version) == (False, False, "1 2")
    assert row.joined_at_ms == group.beats["a"] == group.asked["a"]
    assert joined.group_epoch == group.meta.group_epoch == 2


def test_an_id_in_use_under_another_secret_is_refused_and_changes_nothing(world: World) -> None:
    world.configure()
    world.join("a", "one", host="first")
    before = world.group_epoch()
    assert world.join("a", "other", host="second").result is JoinResult.IN_USE
    assert world.group_epoch() == before
    assert world.read().members["a"].host == "first"
    assert world.join("a", "one").result is JoinResult.OK


def test_an_id_is_free_again_once_its_member_is_gone(world: World) -> None:
    world.configure()
    world.join("a", "one")
    world.leave("a", "one")
    assert world.join("a", "other").result is JoinResult.OK


def test_a_join_throws_the_report_of_before_away(world: World) -> None:
    world.configure()
    world.join("a")
    world.report("a", 1, owned={str(P0): "5 running"}, able=True)
    world.join("a")
    group = world.read()
    assert "a" not in group.reports
    assert "a" in group.asked
    assert not group.members["a"].able


@pytest.mark.parametrize("member_id", ["", "a b", "a/b", "-a", "x" * 101, "a:1\n"])
def test_a_name_that_is_none_never_reaches_redis(world: World, member_id: str) -> None:
    world.configure()
    with pytest.raises(InvalidInput, match="member"):
        world.join(member_id)


def test_leave_releases_every_live_lock_and_removes_every_row(world: World) -> None:
    world.stand(a={P0, P1}, b={P2})
    live, lost = world.running("a", P0), world.running("a", P1)
    world.fence("b", P2)
    world.report("a", 1, able=True)
    world.store.write_progress("a", ConsumerHealth(state="ready"))
    world.let_expire("a", Claim(P1, lost))
    until_ms = world.read().grants[P1].until_ms
    before = world.group_epoch()
    assert world.leave("a")

    group = world.read()
    assert group.meta.group_epoch == before + 1
    for rows in (group.members, group.beats, group.reports, group.asked, group.target):
        assert "a" not in rows
    assert list(group.locks) == [P2]
    assert (group.grants[P0].ended, group.grants[P1].ended) == ("released", "expired")
    assert world.store.owned("a") == {}
    assert world.store.progress("a") is None
    ends = {e.fence: (e.kind, e.at_ms) for e in world.events()[-2:] if e.member_id == "a"}
    assert len(world.kinds()) == 5
    assert {kind for kind, _ in ends.values()} <= {"released", "expired"}
    assert ("expired", until_ms) in ends.values()
    assert live


def test_leave_under_another_secret_or_of_a_stranger_touches_nothing(world: World) -> None:
    world.stand(a={P0})
    fence = world.fence("a", P0)
    before = world.group_epoch()
    assert not world.leave("a", "other")
    assert not world.leave("stranger")
    assert world.group_epoch() == before
    assert world.store.renew("a", LONG_MS, [Claim(P0, fence)]).held == (True,)


# --- evict ----------------------------------------------------------------------------------------


def test_evict_ends_locks_as_expired_and_removes_the_member(world: World) -> None:
    world.stand(a={P0})
    fence = world.running("a", P0)
    before = world.group_epoch()
    assert world.evict("a", world.read().beats["a"]) is EvictResult.OK
    group = world.read()
    event = world.events()[-1]
    assert (event.kind, event.fence, event.at_ms) == ("expired", fence, group.grants[P0].until_ms)
    assert (group.locks, group.members) == ({}, {})
    assert group.meta.group_epoch == before + 1
    assert world.evict("a", group.now_ms) is EvictResult.GONE


def test_evict_is_refused_when_the_member_gave_a_newer_sign_of_life(world: World) -> None:
    world.stand(a={P0})
    judged_ms = world.read().beats["a"]
    world.pass_ms(2)
    world.store.renew("a", LONG_MS, [])
    before = world.group_epoch()
    assert world.evict("a", judged_ms) is EvictResult.NEWER
    assert "a" in world.read().members
    assert world.group_epoch() == before


# --- reports --------------------------------------------------------------------------------------


def test_a_report_of_a_stranger_or_under_another_secret_touches_nothing(world: World) -> None:
    world.stand(a={P0})
    before = world.read()
    world.pass_ms(2)
    assert world.report("stranger", 1).result is FENCED
    assert world.report("a", 1, secret="other", able=True).result is FENCED
    after = world.read()
    assert (after.beats, after.reports, after.members) == (
        before.beats,
        before.reports,
        before.members,
    )
    assert after.meta.group_epoch == before.meta.group_epoch


def test_a_complete_report_is_stored_and_no_longer_asked_for(world: World) -> None:
    world.stand(a={P0})
    owned = {str(P0): "7 running"}
    answer = world.report("a", 3, report=2, owned=owned, consumer={"batch": 4})
    assert (answer.result, answer.want_complete) == (OK, False)
    group = world.read()
    report = group.reports["a"]
    assert (report.number, report.sequence) == (2, 3)
    assert report.owned == {P0: Held(fence=7, state=RUNNING)}
    assert report.consumer == {"batch": 4}
    assert group.asked == {}
    assert report.at_ms == group.beats["a"]


def test_changes_lie_over_the_complete_report_and_replace_the_changes_before(world: World) -> None:
    world.stand(a={P0})
    world.report("a", 1, owned={str(P0): "7 running", str(P1): "8 running"})
    changes = {str(P0): None, str(P2): "9 restoring"}
    world.report("a", 2, complete=False, owned=changes, consumer={"rows": 1})
    report = world.read().reports["a"]
    assert report.owned == {
        P1: Held(fence=8, state=RUNNING),
        P2: Held(fence=9, state=HeldState.RESTORING),
    }
    assert report.consumer == {"rows": 1}
    world.report("a", 3, complete=False, owned={})
    assert set(world.read().reports["a"].owned) == {P0, P1}


def test_changes_to_an_unknown_complete_report_are_answered_with_a_wish_for_one(
    world: World,
) -> None:
    world.stand(a={P0})
    assert world.report("a", 1, complete=False).want_complete
    world.report("a", 2, report=1)
    assert world.report("a", 3, report=2, complete=False).want_complete
    group = world.read()
    assert group.reports["a"].number == 1
    assert "a" in group.asked
    assert not world.report("a", 4, report=3).want_complete
    assert world.read().asked == {}


def test_the_wish_for_a_complete_report_keeps_the_time_of_the_first_one(world: World) -> None:
    world.stand(a={P0})
    since = world.read().asked["a"]
    world.pass_ms(2)
    world.report("a", 1, complete=False)
    assert world.read().asked["a"] == since


@pytest.mark.parametrize("sequence", [4, 5])
def test_a_report_that_comes_late_or_twice_changes_nothing(world: World, sequence: int) -> None:
    world.stand(a={P0})
    world.report("a", 5, owned={str(P0): "7 running"}, able=True)
    before = world.group_epoch()
    assert world.report("a", sequence, owned={}, able=False).result is LATE
    group = world.read()
    assert list(group.reports["a"].owned) == [P0]
    assert group.members["a"].able
    assert group.meta.group_epoch == before


def test_a_report_with_other_letters_than_ascii_is_kept_whole(world: World) -> None:
    world.stand(a={P0})
    world.report("a", 1, consumer={"why": "größer ☂"})
    world.report("a", 2, complete=False, owned={str(P1): "9 running"}, consumer={"why": "né"})
    report = world.read().reports["a"]
    assert (report.consumer, list(report.owned)) == ({"why": "né"}, [P1])


def test_ability_and_leaving_make_a_plan_outdated_only_when_they_change(world: World) -> None:
    world.stand(a={P0})
    before = world.group_epoch()
    assert not world.report("a", 1).replan
    assert world.group_epoch() == before
    assert world.report("a", 2, able=True).replan
    assert world.group_epoch() == before + 1
    assert not world.report("a", 3, able=True).replan
    assert world.report("a", 4, able=True, leaving=True).replan
    assert world.report("a", 5, able=False, leaving=True).replan
    assert world.group_epoch() == before + 3
    row = world.read().members["a"]
    assert (row.able, row.leaving) == (False, True)


def test_a_member_remembers_when_it_last_became_able(world: World) -> None:
    world.stand(a={P0})
    world.report("a", 1, able=True)
    first = world.read().members["a"].able_at_ms
    world.pass_ms(2)
    world.report("a", 2, able=True)
    assert world.read().members["a"].able_at_ms == first
    world.report("a", 3, able=False)
    world.report("a", 4, able=True)
    row = world.read().members["a"]
    assert row.able_at_ms > first
    assert row.joined_at_ms < first + 1


def test_a_report_is_answered_with_the_target_only_when_the_agent_has_another(
    world: World,
) -> None:
    world.stand(a={P0})
    epoch = world.read().meta.target_epoch
    answer = world.report("a", 1, incarnation=1, target_epoch=epoch - 1)
    assert answer.target is not None
    assert (answer.target.target_epoch, answer.target.active) == (epoch, {P0})
    assert world.report("a", 2, incarnation=1, target_epoch=epoch).target is None
    assert world.report("a", 3, incarnation=0, target_epoch=epoch).target is not None


def test_a_missing_target_is_never_sent_as_an_empty_one(world: World) -> None:
    world.stand(a={P0})
    world.join("late")
    answer = world.report("late", 1)
    assert (answer.result, answer.target) == (OK, None)
    world.assign(a={P0})
    target = world.report("late", 2).target
    assert target is not None and target.active == frozenset()


def test_a_report_carries_the_epochs(world: World) -> None:
    world.stand(a={P0})
    answer = world.report("a", 1)
    meta = world.read().meta
    assert (answer.incarnation, answer.mode_epoch) == (1, 1)
    assert answer.group_epoch == meta.group_epoch
    assert (answer.target_epoch, answer.settings_epoch) == (meta.target_epoch, 1)


@pytest.mark.parametrize("held", ["running", "5", "5 sleeping", "x running", "-5 running"])
def test_a_report_of_something_that_cannot_be_held_never_reaches_redis(held: str) -> None:
    with pytest.raises(InvalidInput):
        report_args(
            "a",
            "s",
            report=1,
            sequence=1,
            complete=True,
            owned={str(P0): held},
            consumer={},
            able=True,
            leaving=False,
            incarnation=1,
            target_epoch=1,
        )


# --- copies, and learners that are ready ----------------------------------------------------------

LEARNER = {"role": "learner", "lag": 40, "percent": 12.5, "rate": 900.0, "eta_ms": 44}
READY = {"role": "learner", "lag": 0, "percent": 100, "ready": True}


def test_copies_are_stored_whole_with_every_report(world: World) -> None:
    world.stand(a={P0})
    standby = {"role": "standby", "lag": 0, "percent": 100, "why": "größer ☂"}
    world.report("a", 1, copies={str(P1): LEARNER, str(P2): standby})
    assert world.read().reports["a"].copies == {
        P1: CopyReport(role=Role.LEARNER, lag=40, percent=12.5, rate=900.0, eta_ms=44),
        P2: CopyReport(role=Role.STANDBY, lag=0, percent=100, why="größer ☂"),
    }
    world.report("a", 2, complete=False, copies={str(P1): LEARNER})
    assert list(world.read().reports["a"].copies) == [P1]
    world.report("a", 3, complete=False)
    assert world.read().reports["a"].copies == {}


def test_a_learner_that_becomes_ready_makes_a_plan_outdated_once(world: World) -> None:
    world.stand(a={P0})
    world.report("a", 1, copies={str(P1): LEARNER, str(P2): LEARNER})
    before = world.group_epoch()
    both = {str(P1): READY, str(P2): READY}
    assert world.report("a", 2, copies=both, ready=[str(P2)]).replan
    assert world.read().members["a"].ready == {P2}
    assert not world.report("a", 3, copies=both, ready=[str(P2)]).replan
    assert world.group_epoch() == before + 1
    assert world.report("a", 4, copies=both, ready=[str(P2), str(P1)]).replan
    assert not world.report("a", 5, copies=both, ready=[str(P1)]).replan
    assert world.read().members["a"].ready == {P1}
    assert world.report("a", 6, copies=both, ready=[str(P1), str(P2)]).replan
    assert world.group_epoch() == before + 3
    assert [h.reason for h in world.store.wait_hints("0-0", 1).hints[-3:]] == ["ready"] * 3


def test_whoever_joins_anew_is_ready_for_nothing(world: World) -> None:
    world.stand(a={P0})
    world.report("a", 1, copies={str(P1): READY}, ready=[str(P1)])
    world.join("a")
    assert world.read().members["a"].ready == frozenset()
    assert world.report("a", 2, copies={str(P1): READY}, ready=[str(P1)]).replan


@pytest.mark.parametrize(
    "changes",
    [
        {"copies": {"flights": READY}},
        {"copies": {str(P1): {}}},
        {"copies": {str(P1): {"role": "owner"}}},
        {"copies": {str(P1): READY | {"lag": "far"}}},
        {"copies": {str(P1): READY | {"lag": True}}},
        {"copies": {str(P1): READY | {"percent": 101}}},
        {"copies": {str(P1): READY | {"rate": float("nan")}}},
        {"copies": {str(P1): READY | {"eta_ms": 0.5}}},
        {"ready": [str(P1)]},
        {"copies": {str(P1): READY | {"role": "standby"}}, "ready": [str(P1)]},
    ],
)
def test_a_copy_that_cannot_be_never_reaches_redis(world: World, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        world.report("a", 1, **changes)


# --- told to leave --------------------------------------------------------------------------------


def test_members_are_told_to_leave_and_hear_it_both_ways(world: World) -> None:
    world.stand(a={P0}, b={P1})
    before = world.group_epoch()
    marked = world.mark(Drain.LEAVING, "a", "stranger")
    assert (marked.members, marked.group_epoch) == (("a",), before + 1)
    members = world.read().members
    assert (members["a"].drain, members["b"].drain) == (Drain.LEAVING, Drain.NONE)
    assert not members["a"].leaving
    assert world.report("a", 1).drain is Drain.LEAVING
    assert world.report("b", 1).drain is Drain.NONE
    assert world.store.target("a").drain is Drain.LEAVING
    assert world.store.target("stranger").drain is None


def test_told_the_same_again_nothing_changes(world: World) -> None:
    world.stand(a={P0}, b={P1})
    epoch = world.mark(Drain.LEAVING, "a").group_epoch
    hints = world.store.last_hint_id()
    assert world.mark(Drain.LEAVING, "a", "stranger") == Marked(epoch, ())
    assert world.mark(Drain.LEAVING) == Marked(epoch, ())
    assert world.store.last_hint_id() == hints
    assert world.mark(Drain.FORCED, "a", "b").members == ("a", "b")
    assert world.mark(Drain.NONE, "b").group_epoch == epoch + 2
    reasons = [h.reason for h in world.store.wait_hints("0-0", 1).hints]
    assert [r for r in reasons if r in ("scale-down", "forced", "cancelled")] == [
        "scale-down",
        "forced",
        "cancelled",
    ]


def test_taken_back_the_targets_learners_are_dropped_with_it(world: World) -> None:
    world.stand(a={P0}, b={P1})
    world.mark(Drain.LEAVING, "a")
    view = world.read(Purpose.PLAN)
    epoch = view.meta.group_epoch
    placed = {
        "a": TargetRow(target_epoch=epoch, active=frozenset({P0})),
        "b": TargetRow(
            target_epoch=epoch,
            active=frozenset({P1}),
            learning=frozenset({P0}),
            standby=frozenset({P2}),
        ),
    }
    world.set_rows(view, placed)
    world.mark(Drain.LEAVING, "b")
    assert world.read().target == placed, "another one is told: they learn on"
    world.mark(Drain.NONE, "stranger")
    assert world.read().target == placed, "nobody was told anything"
    world.mark(Drain.NONE, "a")
    assert world.read().target == placed | {"b": replace(placed["b"], learning=frozenset())}


def test_whoever_is_leaving_stays_so_when_it_joins_anew(world: World) -> None:
    world.stand(a={P0}, b={P1})
    world.mark(Drain.LEAVING, "a")
    world.join("a")
    assert world.read().members["a"].drain is Drain.LEAVING
    world.leave("a")
    world.join("a")
    assert world.read().members["a"].drain is Drain.NONE


def test_what_was_told_outlives_reports(world: World) -> None:
    world.stand(a={P0})
    world.mark(Drain.LEAVING, "a")
    world.report("a", 1, able=True, leaving=True)
    row = world.read().members["a"]
    assert (row.able, row.leaving, row.drain) == (True, True, Drain.LEAVING)


# --- progress -------------------------------------------------------------------------------------


def test_progress_is_kept_for_members_only(world: World) -> None:
    world.stand(a={P0})
    health = ConsumerHealth(state="ready", rows=5, rows_per_second=1.5, batch=3)
    assert world.store.progress("a") is None
    assert world.store.write_progress("a", health)
    assert world.store.progress("a") == health
    assert not world.store.write_progress("stranger", health)
    assert world.store.progress("stranger") is None


def test_progress_in_parts_lies_over_what_was_written(world: World) -> None:
    world.stand(a={P0})
    world.store.write_progress("a", ConsumerHealth(state="ready", rows=5))
    world.run("progress", progress_args("a", [("rows", 6)]))
    assert world.store.progress("a") == ConsumerHealth(state="ready", rows=6)


def test_a_tick_counts_no_session_as_ended_for_a_while_after_it_was_away(world: World) -> None:
    world.stand(a={P0})
    group = world.read(Purpose.TICK, 1_000)  # the first tick: nobody knows what was before it
    first = world.read().meta
    assert first.quiet_until_ms == group.now_ms + 1_000 == first.tick_ms + 1_000
    world.pass_ms(2)
    world.read(Purpose.TICK, 1_000)
    second = world.read().meta
    assert second.quiet_until_ms == first.quiet_until_ms
    assert second.tick_ms > first.tick_ms
    world.another_run()
    world.read(Purpose.TICK, 1_000)
    third = world.read().meta
    assert third.quiet_until_ms == third.tick_ms + 1_000
