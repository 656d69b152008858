"""Targets, settings and epochs: which write is refused, and what makes a plan outdated."""

from dataclasses import replace
from typing import Any

import pytest

from assignment.scripts import dashboard_side
from assignment.scripts.agent_side import Granted, Refusal, SnapshotRecord, SnapshotResult
from assignment.scripts.dashboard_side import ModeSet
from assignment.scripts.group_read import Purpose
from assignment.types import START, Coordination, Epoch, GroupSettings, Offset, Partition, Reason
from tests.contract.world import P0, P1, P2, World, offset, row


def test_a_target_is_written_whole_for_every_member_and_for_nobody_else(world: World) -> None:
    world.stand(a={P0}, b={P1}, c=set())
    world.leave("a")
    epoch = world.assign(b={P0, P1}, ghost={P2})
    group = world.read()
    assert group.target == {"b": row(epoch, {P0, P1}), "c": row(epoch)}
    assert group.meta.target_epoch == epoch == group.meta.group_epoch


def test_one_that_joined_after_the_read_gets_an_empty_row(alone: World) -> None:
    group = alone.due()
    alone.join("b")
    assert alone.set_target(group, a={P0}) is None
    after = alone.read()
    assert after.target["b"] == row(group.meta.group_epoch)
    assert after.meta.group_epoch > after.meta.target_epoch  # and is planned for next


def test_who_was_left_out_is_planned_for_as_soon_as_it_renews(world: World) -> None:
    """A machine that slept for longer than anybody waits for its locks."""
    world.stand(a={P0}, b={P1})
    group = world.due()
    epoch = group.meta.group_epoch
    rows = {"a": row(epoch, {P0, P1})}
    assert world.run(dashboard_side.set_target(group, rows, left_out=["b", "c"])) is None
    for member, times in {"a": 0, "b": 1}.items():
        for _ in range(2):
            world.renew(member)
        assert world.group_epoch() == epoch + times


@pytest.mark.parametrize("off", [("coordinator_epoch", -1), ("mode_epoch", 1), ("group_epoch", 1)])
def test_a_target_of_other_epochs_is_stale(alone: World, off: tuple[str, int]) -> None:
    """Of a coordinator that was overtaken, of another mode, of a group that is no more."""
    group, name = alone.due(), off[0]
    before = alone.read().target
    meta = replace(group.meta, **{name: getattr(group.meta, name) + off[1]})
    assert alone.set_target(replace(group, meta=meta), a={P1}) is not None
    assert alone.read().target == before
    assert alone.set_target(group, a={P1}) is None


def test_a_target_not_above_the_stored_one_is_stale(alone: World) -> None:
    group = alone.read(Purpose.REBALANCE)
    assert group.meta.group_epoch == group.meta.target_epoch
    assert alone.set_target(group, a={P1}) == "nothing changed"


def test_a_target_repeated_after_a_lost_reply_is_done_and_written_once(alone: World) -> None:
    group = alone.due()
    first = alone.set_target(group, a={P1})
    hints = alone.last_change()
    assert alone.set_target(group, a={P1}) == first
    assert alone.last_change() == hints
    alone.read(Purpose.REBALANCE)
    assert alone.set_target(group, a={P1}) is not None


def test_a_target_of_a_group_that_was_never_configured_is_stale(world: World) -> None:
    assert world.set_target(world.read()) is not None


def learn(world: World, *learned: Partition) -> None:
    """A target in which a learns these."""
    group = world.due()
    assert world.set_rows(group, {"a": row(group.meta.group_epoch, (), learned)}) is None


def test_a_learner_that_was_dropped_and_is_placed_again_says_ready_anew(world: World) -> None:
    """Its member may never have seen the target in between, and goes on saying ready."""
    world.stand(a=set())
    replicas = {str(p): {"role": "learner", "lag": 0, "ready": True} for p in (P0, P1)}
    ready = [str(P0), str(P1)]
    learn(world, P0, P1)
    assert world.report("a", 1, replicas=replicas, ready=ready).rebalance_due
    learn(world, P0)
    assert world.read().members["a"].ready == {P0, P1}
    learn(world, P0, P1)
    assert world.read().members["a"].ready == {P0}
    before = world.group_epoch()
    assert world.report("a", 2, replicas=replicas, ready=ready).rebalance_due
    assert world.group_epoch() == before + 1
    assert not world.report("a", 3, replicas=replicas, ready=ready).rebalance_due


def test_standbys_and_learners_are_kept_with_the_target(alone: World) -> None:
    group = alone.due()
    placed = row(group.meta.group_epoch, (), (P0, P2), (P1,))
    assert alone.set_rows(group, {"a": placed}) is None
    assert alone.read().target["a"] == placed == alone.store.target("a").row


def test_only_a_plan_takes_a_new_coordinator_epoch(world: World) -> None:
    world.configure()
    first = world.read(Purpose.REBALANCE).meta.coordinator_epoch
    world.read(Purpose.TICK)
    world.read(Purpose.LOOK)
    assert world.read(Purpose.REBALANCE).meta.coordinator_epoch == first + 1


def test_a_member_reads_its_own_row_with_epochs_and_settings(world: World) -> None:
    world.stand(a={P0}, b={P1})
    mine = world.store.target("b")
    assert mine.row == row(mine.meta.target_epoch, {P1})
    assert mine.meta == world.read().meta
    assert mine.meta.settings is not None and mine.meta.settings.partitions == 3
    assert world.store.target("stranger").row is None


def test_settings_make_a_plan_outdated_only_when_told_so(world: World) -> None:
    first = world.configure()
    assert world.configure(renew_ms=2_000, rebalance_due=False) == first
    assert world.read().meta.settings_epoch == 2
    assert world.configure(strategy="averagely", renew_ms=2_000) == first + 1
    world.configure(strategy="averagely", renew_ms=2_000, rebalance_due=False)
    meta = world.read().meta
    assert meta.settings_epoch == 3, "the same again are no new ones"
    assert meta.settings is not None
    assert (meta.settings.strategy, meta.settings.renew_ms) == ("averagely", 2_000)


def test_settings_are_put_over_those_only_that_were_read(world: World) -> None:
    newer = GroupSettings(stream="flights", partitions=3, renew_ms=2_000)
    older = replace(newer, renew_ms=3_000)
    for put, over in ((older, 1), (older, 0), (newer, 1), (older, 1), (older, 0)):
        world.run(dashboard_side.configure(put, "s", rebalance_due=True, over_epoch=over))
    meta = world.read().meta
    assert (meta.settings, meta.settings_epoch, meta.group_epoch) == (newer, 2, 2)


def test_what_locks_and_commits_do_makes_no_plan_outdated(alone: World) -> None:
    before = alone.group_epoch()
    fence = alone.running("a", P0)
    for claimed in (fence, fence + 1):
        alone.commit(P0, claimed, START, offset(1))
    alone.next_batch()
    alone.release("a", {P0: fence})
    alone.sweep()
    assert alone.group_epoch() == before


def test_a_person_who_asks_makes_a_plan_outdated(world: World) -> None:
    first = world.configure()
    assert world.request_rebalance("asked by a person", "a") == first + 1
    assert world.changes()[-1][1] == "a"


# --- after a wipe ---------------------------------------------------------------------------------


def record(number: int, **more: Any) -> SnapshotRecord:
    values: dict[str, Any] = {"url": "file:///x", "changelog_id": "0-0", "total": 40, "fence": 7}
    return SnapshotRecord(offset=offset(number), **values | more)


def test_offsets_come_back_from_snapshots_before_anything_is_granted(world: World) -> None:
    world.configure()
    records = {P0: record(9), P1: record(3)}
    assert (world.restore(2, records), world.restore(2, records)) == (2, 0)
    group = world.read()
    assert group.offsets == {P0: offset(9), P1: offset(3)}
    assert group.snapshots[P0] == (record(9),)
    assert group.applied[P0].total == 40


@pytest.fixture
def at_5(world: World, fence: int) -> str:
    """The changelog's last entry, of a commit with its snapshot; then Redis is another run."""
    answer = world.commit(P0, fence, START, offset(5))
    assert world.snapshot(P0, fence, offset(5), answer.changelog_id) is SnapshotResult.DONE
    world.another_run()
    return answer.changelog_id


def test_an_older_offset_is_moved_forward_to_a_whole_newer_snapshot(
    world: World, at_5: str
) -> None:
    """With its count and the fence of its history; read on from where the changelog ends now."""
    before = world.read().snapshots[P0][0]
    newer = record(9, fence=2**32 + 7)
    assert world.restore(2, {P0: newer}) == 1
    group = world.read()
    assert (group.offsets[P0], group.applied[P0].total) == (offset(9), 40)
    assert group.snapshots[P0] == (replace(newer, changelog_id=at_5), before)


def test_a_record_keeps_its_changelog_id_where_the_changelog_is_below(
    world: World, at_5: str
) -> None:
    """A replica on disk that stands at the snapshot is known by it."""
    newer = record(9, changelog_id=str(Offset(Offset.parse(at_5).ms + 9, 3)))
    world.restore(2, {P0: newer})
    assert world.read().snapshots[P0][0] == newer


@pytest.mark.parametrize("number", [4, 5])
@pytest.mark.usefixtures("at_5")
def test_no_offset_is_moved_to_a_snapshot_that_is_not_newer(world: World, number: int) -> None:
    before = world.read()
    assert world.restore(2, {P0: record(number)}) == 0
    assert replace(world.read(), now_ms=before.now_ms, locks=before.locks) == before


def test_nothing_comes_back_once_grants_are_possible_of_the_incarnation(alone: World) -> None:
    """A server that was put back with its identity has grants of one below that is about to be."""
    assert alone.restore(1, {P0: record(9)}) is None
    assert alone.read().offsets == {}
    assert alone.restore(2, {P0: record(9)}) == 1


def test_a_commit_goes_on_from_what_came_back(world: World) -> None:
    world.configure()
    world.restore(2, {P0: record(9)})
    world.join("a")
    world.set_incarnation(2)
    world.assign(a={P0})
    fence = world.fence("a", P0, incarnation=2)
    assert world.commit(P0, fence, START, offset(10)).committed == offset(9)
    assert world.commit(P0, fence, offset(9), offset(10), events=2).applied
    assert world.read().applied[P0].total == 42
    assert world.store.read_changelog(P0, "5-0", 9).entries[0].from_offset == offset(9)


def test_epochs_and_events_of_a_group_that_is_not_there_go_on_above_history(world: World) -> None:
    assert world.resume(50, 900, {}) == 50
    world.resume(40, 800, {})
    world.configure(rebalance_due=False)
    meta = world.read().meta
    assert (meta.group_epoch, meta.target_epoch, meta.event_seq) == (50, 50, 900)
    world.stand(a={P0})
    before = world.read().meta
    assert world.resume(150, 1_900, {}) == before.group_epoch, "its target would seem newer"
    assert world.read().meta == before
    world.fence("a", P0)
    assert world.events()[0].seq == 901


def test_a_wiped_group_has_its_last_target_again(world: World) -> None:
    last = replace(row(48, {P0}), incarnation=3)
    world.resume(50, 900, {"a": last})
    world.configure()
    group = world.read()
    assert group.target == {"a": replace(last, target_epoch=50)}
    assert (group.meta.target_epoch, group.meta.target_incarnation) == (50, 3)


# --- the switch -----------------------------------------------------------------------------------


def test_a_switch_changes_who_coordinates_and_nothing_else(world: World) -> None:
    world.runs(a={P0, P1}, b={P2})
    before = world.read()
    done = world.set_mode(Coordination.CLIENT)
    assert done == ModeSet(True, Epoch(1, 2), Coordination.CLIENT)
    after = world.read()
    told = {"mode_epoch": 2, "coordination": Coordination.CLIENT}
    who = {"mode_by": "ann", "mode_reason": "a test"}
    assert after.meta == replace(before.meta, **told, **who)
    for name in ("members", "target", "grants"):
        assert getattr(after, name) == getattr(before, name)
    assert after.locks.keys() == before.locks.keys()
    assert world.changes()[-1][0] == Reason.MODE


def test_a_switch_to_what_is_already_is_done_and_tells_nobody(world: World) -> None:
    world.stand(a={P0})
    hints, before = world.last_change(), world.read().meta
    assert world.set_mode(Coordination.SERVER) == ModeSet(True, Epoch(1, 1), Coordination.SERVER)
    assert world.last_change() == hints
    assert world.read().meta == before


@pytest.mark.parametrize("expected", [Epoch(1, 1), Epoch(1, 3), Epoch(0, 2), Epoch(2, 2)])
def test_a_switch_under_another_mode_epoch_or_incarnation_is_stale(
    world: World, expected: Epoch
) -> None:
    world.stand(a={P0})
    world.set_mode(Coordination.CLIENT)
    for mode in Coordination:
        stale = ModeSet(False, Epoch(1, 2), Coordination.CLIENT)
        assert world.set_mode(mode, expected) == stale
    assert world.read().meta.mode == Epoch(1, 2)


def test_of_two_switches_at_once_one_wins(world: World) -> None:
    world.stand(a={P0})
    seen = world.read().meta.mode
    assert world.set_mode(Coordination.CLIENT, seen).done
    assert not world.set_mode(Coordination.SERVER, seen).done


def test_a_group_that_is_not_there_has_no_mode(world: World) -> None:
    assert world.set_mode(Coordination.CLIENT) == ModeSet(False, Epoch(0, 0), None)
    assert world.read().meta.mode_epoch == 0


def test_a_target_and_an_acquire_from_before_a_switch_are_refused(world: World) -> None:
    """Whoever computed under the mode before is too late; a member asks again under the new one."""
    world.stand(a={P0})
    begun = world.due()
    world.set_mode(Coordination.CLIENT)
    assert world.set_target(begun, a={P1}) == "the mode changed"
    assert world.acquire("a", P0) is Refusal.WRONG_MODE
    assert world.renew("a").mode_epoch == world.report("a", 1).mode_epoch == 2
    answer = world.acquire("a", P0, mode_epoch=2)
    assert isinstance(answer, tuple) and isinstance(answer[0], Granted)
    assert world.set_target(world.read(Purpose.REBALANCE), a={P1}) is None


@pytest.mark.parametrize(("weights", "applied"), [({}, False), ("measured", True)])
def test_a_rebalance_reads_what_was_applied_only_where_that_weighs(
    alone: World, weights: object, applied: bool
) -> None:
    parameters = {"weights": weights} if weights else {}
    alone.configure(strategy="weighted_sticky", strategy_parameters=parameters)
    alone.door.ask("HSET", alone.keys.applied, str(P0), "7 1000")
    alone.door.ask("HSET", alone.keys.offsets, str(P0), "5-1")
    due, whole = alone.due(), alone.read()
    assert (P0 in due.applied, P0 in due.offsets) == (applied, False)
    assert (P0 in whole.applied, P0 in whole.offsets) == (True, True)
