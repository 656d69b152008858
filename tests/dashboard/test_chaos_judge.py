"""The judge of chaos: what is right passes, each broken history is told of."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from assignment.types import START, Offset
from assignment.wire import pack_ids
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.chaos.eye import Sample
from dashboard.evaluation.chaos.figures import figures
from dashboard.evaluation.chaos.history import REDIS, Answer, History, load, save
from dashboard.evaluation.chaos.judge import HELD, VACUOUS, VIOLATED, Verdict, judge
from dashboard.evaluation.chaos.starving import HARNESS
from dashboard.evaluation.judge import Appended, Content
from tests.dashboard.chaos_histories import (
    FENCE,
    HEALED,
    ONE,
    P0,
    P1,
    TWO,
    Scene,
    appended,
    commit,
    happened,
    sample,
    target,
)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def only(verdict: Verdict, *parts: str) -> None:
    """Each part is in a violation, and every violation has one of them."""
    said = "\n".join(verdict.violations)
    assert all(part in said for part in parts), said
    assert all(any(part in text for part in parts) for text in verdict.violations), said
    assert verdict.exit_code == VIOLATED


def starved(scene: Scene, ms: dict[str, int]) -> list[Sample]:
    """Its samples; from 11 s to 12.5 s those had no CPU for so long."""
    return [replace(s, starved=ms if s.at_ms >= 12_500 else {}) for s in scene.samples]


def with_pause(scene: Scene, until_ms: int = 12_400, idle: range = range(0)) -> History:
    """Partition 1 has an event every 100 ms, but for the time `idle`, and a commit every 400 ms,
    but from 11 s on.
    """
    times = [*range(6_000, 11_001, 400), 11_000, until_ms, 12_600]
    commits = [commit(to, FENCE, came, to) for came, to in pairwise(times)]
    stream = [Appended(Offset(ms, 0), (ms,)) for ms in range(6_000, 12_700, 100) if ms not in idle]
    both = replace(scene.content, stream={P1: stream}, commits={P1: commits})
    return scene.history(eras=(both,))


def test_a_history_that_is_right_holds(scene: Scene) -> None:
    verdict = judge(scene.history())
    assert (verdict.violations, verdict.exit_code) == ((), HELD)
    assert verdict.recovered_ms == 1_500


# --- fences and locks


def test_a_commit_that_no_fence_check_refused_is_told(scene: Scene) -> None:
    scene.commits[2] = commit(11_500, FENCE, 2, 3)
    only(judge(scene.history()), "was accepted after fence")


def test_an_old_owner_that_is_not_answered_fenced_is_told(scene: Scene) -> None:
    scene.answers = [Answer(11_200, ONE, str(P0), FENCE, "moved")]
    only(judge(scene.history()), "was answered moved, not fenced")


def test_an_old_owner_that_is_refused_is_right(scene: Scene) -> None:
    scene.answers = [Answer(11_200, ONE, str(P0), FENCE, "fenced")]
    assert judge(scene.history()).held


def test_a_fence_that_two_members_got_is_told(scene: Scene) -> None:
    scene.events[3] = happened("acquired", 11_000, TWO, FENCE)
    found = judge(scene.history(eras=(replace(scene.content, commits={}, stream={}),)))
    assert f"fence {FENCE} of {P0} was given to {ONE} and to {TWO}" in found.violations


def test_fences_that_begin_anew_after_a_wipe_are_told(scene: Scene) -> None:
    scene.asked = Asked(faults=("redis-wipe",), agents=2, partitions=2, fast=True)
    before = scene.content
    now = Content(
        stream={P0: appended(4)},
        commits={P0: [commit(14_000, FENCE + 2, 0, 4)]},
        offsets={P0: Offset(4, 0)},
        events=[happened("acquired", 13_500, ONE, FENCE)],
    )
    found = judge(scene.history(eras=(before, now)))
    only(found, f"{P0} was granted under fence {FENCE} after fence {FENCE + 2}")


def test_a_lock_that_is_taken_again_after_it_expired_is_told(scene: Scene) -> None:
    scene.samples.insert(2, sample(10_980, {P0: (ONE, FENCE), P1: (TWO, FENCE)}))
    only(judge(scene.history()), "took the lock of chaos:0 again after it had ended")


def test_a_redis_that_was_started_anew_may_hold_what_it_held_before(scene: Scene) -> None:
    again = sample(10_980, {P0: (ONE, FENCE), P1: (TWO, FENCE)}, run_id="another")
    scene.samples.insert(2, again)
    assert judge(scene.history()).held


def test_a_grant_before_the_one_before_had_ended_is_told(scene: Scene) -> None:
    scene.events[2] = happened("expired", 11_300, ONE, FENCE)
    only(judge(scene.history()), f"while {ONE}/{FENCE} had it")


def test_what_does_not_hold_at_a_moment_is_told_once(scene: Scene) -> None:
    fault = "target: the target gives chaos:0 to both"
    scene.samples = [replace(s, faults=(fault,)) for s in scene.samples]
    assert judge(scene.history()).violations == (fault,)


# --- effects


def test_progress_that_was_read_before_the_claim_is_told(scene: Scene) -> None:
    scene.commits[2] = commit(11_500, FENCE + 1, 2, 3, counted=2)
    only(judge(scene.history()), "counts 2 events of 3", "did not begin where the one before")


def test_an_event_without_an_effect_is_told(scene: Scene) -> None:
    scene.commits[1] = replace(scene.commits[1], ids=b"")
    found = judge(scene.history())
    assert "event 2 was acknowledged and has no effect" in found.violations
    assert found.effects.lost == (2,)


def test_an_event_with_two_effects_is_told(scene: Scene) -> None:
    scene.commits[2] = replace(scene.commits[2], ids=pack_ids([2, 3]))
    found = judge(scene.history())
    assert "event 2 has more than one effect" in found.violations
    assert found.effects.doubled == (2,)


def test_effects_out_of_order_are_told(scene: Scene) -> None:
    scene.commits[2:] = [commit(11_500, FENCE + 1, 2, 4)]
    scene.commits[2] = replace(scene.commits[2], ids=pack_ids([4, 3]))
    only(judge(scene.history()), "are not in the order of its events")


def test_what_only_a_wiped_redis_held_is_destroyed_and_not_lost(scene: Scene) -> None:
    scene.asked = Asked(faults=("redis-wipe",), agents=2, partitions=2, fast=True)
    empty = Content(stream={}, commits={}, offsets={}, events=[])
    before = replace(scene.content, commits={P0: scene.commits[:2]}, offsets={P0: Offset(2, 0)})
    found = judge(scene.history(eras=(before, empty)))
    assert (found.effects.lost, len(found.effects.destroyed)) == ((), 4)


@pytest.mark.parametrize("fault", ["redis-lost-writes", "redis-failover"])
def test_only_the_last_writes_may_be_destroyed(scene: Scene, fault: str) -> None:
    """Event 2 was stored 4 s before the fault, event 4 just after it."""
    scene.asked = Asked(faults=(fault,), agents=2, partitions=2, fast=True)
    times = (5_000, 6_000, 9_000, 10_500)
    stream = {P0: [Appended(Offset(ms, 0), (n,)) for n, ms in enumerate(times, 1)]}

    def lost_from(event: int, first: Content) -> History:
        kept = Offset(times[event - 2], 0)
        ids, to = pack_ids(range(1, event)), {"to_offset": kept, "total": event - 1}
        commits = {P0: [replace(commit(7_000, FENCE, 0, event - 1), ids=ids, **to)]}
        now = Content(stream={P0: stream[P0][: event - 1]}, commits=commits, offsets={P0: kept})
        return scene.history(eras=(first, now))

    before = Content(stream=stream, commits={}, events=scene.events)
    found = judge(lost_from(3, before))
    assert (found.effects.destroyed, found.violations) == ((3, 4), ())
    only(judge(lost_from(2, before)), "event 2 is destroyed, 4000 ms older than the fault")
    unseen = Content(stream={P0: stream[P0][:1]}, commits={}, events=scene.events)
    text = "is destroyed, 5000 ms older than the fault"
    only(judge(lost_from(2, unseen)), f"event 2 {text}", f"event 3 {text}", f"event 4 {text}")
    nothing = Content(stream={}, commits={}, events=scene.events)
    only(judge(scene.history(eras=(nothing, nothing))), "and no Redis has held it")


def test_a_killed_redis_may_have_answered_what_its_disk_had_not_taken(scene: Scene) -> None:
    """The last event that it kept was stored at 4 ms; its chain is judged as any other."""
    scene.asked = Asked(faults=("redis-kill",), agents=2, partitions=2, fast=True)
    scene.acknowledged = 6

    def killed(at_ms: int) -> Verdict:
        history = scene.history()
        return judge(replace(history, faults=(replace(history.faults[0], at_ms=at_ms),)))

    found = killed(2_004)
    assert (found.effects.lost, found.effects.destroyed, found.violations) == ((), (5, 6), ())
    text = "is destroyed, 2001 ms older than the fault"
    only(killed(2_005), f"event 5 {text}", f"event 6 {text}")
    scene.commits[2] = commit(11_500, FENCE + 1, 2, 3, counted=2)
    only(killed(2_004), "counts 2 events of 3")


def test_what_is_behind_at_the_end_is_no_loss(scene: Scene) -> None:
    scene.commits.pop()
    scene.samples[-1] = replace(scene.samples[-1], lag=1)
    found = judge(scene.history())
    only(found, "1 events were behind at the end")
    assert found.effects.lost == ()


# --- moves, targets, and what comes after the heal


def test_a_partition_that_moves_between_two_whom_nobody_struck_is_told(scene: Scene) -> None:
    scene.hurt = ()
    found = judge(scene.history())
    only(found, f"went from {ONE} to {TWO} without a cause", f"from {TWO} to {ONE} without")


def test_a_move_over_one_who_could_not_take_it_has_a_cause(scene: Scene) -> None:
    """light-3 was struck: the target gave it what it never acquired."""
    scene.hurt = ("light-3",)
    targets = (target(1, 900), target(2, 10_500, ("light-3-cccccc", TWO)), target(3, 11_000))
    only(judge(scene.history(targets=targets)), f"went from {TWO} to {ONE} without a cause")


def test_nothing_may_move_when_only_the_dashboard_is_struck(scene: Scene) -> None:
    scene.asked = Asked(faults=("dashboard-kill",), agents=2, partitions=2, fast=True)
    only(judge(scene.history()), "was granted anew, to light-2-bbbbbb, without a cause", "light-1")


def test_nothing_of_a_static_member_may_move_while_it_is_restarted(scene: Scene) -> None:
    assert judge(scene.history()).held
    scene.asked = Asked(faults=("rolling-restart",), agents=2, partitions=2, fast=True)
    only(judge(scene.history()), f"went from {ONE} to {TWO}", f"went from {TWO} to {ONE}")


def test_a_restart_of_one_static_member_leaves_the_others_their_fences(scene: Scene) -> None:
    scene.asked = Asked(faults=("rolling-restart",), agents=2, partitions=2, fast=True)
    scene.events = [
        happened("acquired", 1_000, ONE, FENCE),
        happened("acquired", 1_000, TWO, FENCE, P1),
        happened("released", 10_900, ONE, FENCE),
        happened("acquired", 12_000, ONE, FENCE + 1),
    ]
    scene.commits = [commit(2_000, FENCE, 0, 2), commit(14_000, FENCE + 1, 2, 4)]
    now = {P0: (ONE, FENCE + 1), P1: (TWO, FENCE)}
    scene.samples = [sample(9_500, now | {P0: (ONE, FENCE)}), sample(12_500, now)]
    assert judge(scene.history()).held
    scene.events += [
        happened("released", 12_100, TWO, FENCE, P1),
        happened("acquired", 12_200, TWO, FENCE + 1, P1),
    ]
    only(judge(scene.history()), f"chaos:1 was granted anew, to {TWO}, without a cause")


def test_a_switch_under_an_old_epoch_that_was_not_refused_is_told(scene: Scene) -> None:
    whole = scene.history()
    struck = replace(whole.faults[0], wrong=("a switch was not refused",))
    only(judge(replace(whole, faults=(struck,))), "a switch was not refused")


def test_what_the_machine_alone_may_have_done_is_not_judged(scene: Scene) -> None:
    scene.hurt = ()
    whole = scene.history()
    stalled = replace(whole, stalls=((10_800, 900), (12_800, 900)))
    assert judge(stalled).held and not judge(replace(whole, stalls=((10_800, 300),))).held


def test_of_a_stall_only_what_lies_in_the_time_counts(scene: Scene) -> None:
    """It is noted by its end: what stood still for its sake may have ended just before."""
    one = scene.history(stalls=((11_100, 900),), samples=())
    assert one.held_up_ms(10_000, 11_000) == 800
    assert one.held_up_ms(11_000, 12_000) == 100
    assert one.held_up_ms(11_100, 12_000) == 0


def test_an_owner_that_had_no_cpu_for_most_of_a_lease_may_lose_its_partition(scene: Scene) -> None:
    scene.hurt = ()
    both = {"light-1": 900, "light-2": 900}
    assert judge(scene.history(samples=starved(scene, both))).held
    told = judge(scene.history(samples=starved(scene, {"light-2": 900})))
    only(told, f"went from {ONE} to {TWO} without a cause")


def test_a_target_with_an_epoch_of_before_is_told(scene: Scene) -> None:
    by_epoch = (target(2, 11_000), target(3, 900))
    only(judge(scene.history(targets=by_epoch)), "target 2 was stored after target 3")


def test_a_mode_of_before_is_told(scene: Scene) -> None:
    first, *rest = scene.samples
    scene.samples = [replace(first, mode_epoch=2, coordination="client"), *rest]
    only(judge(scene.history()), "mode_epoch fell from 2 to 0 in incarnation 0")
    scene.samples = [replace(first, coordination="client"), *rest]
    only(judge(scene.history()), "coordination went from client to server under mode_epoch 0")
    scene.samples = [replace(first, mode_epoch=2, run_id="another"), *rest]
    assert judge(scene.history()).held, "a Redis that forgot knows no mode_epoch either"
    scene.samples = [first, *(replace(s, mode_epoch=1, coordination="client") for s in rest)]
    assert judge(scene.history()).held, "a switch"


def test_a_target_that_was_computed_under_an_old_mode_is_told(scene: Scene) -> None:
    """Between the looks at 10.95 s, 12.5 s and 13.5 s nobody switched."""
    server, client = (replace(target(2, 11_000), by=by) for by in ("server", "client"))
    assert judge(scene.history(targets=(server, target(3, 12_800)))).held
    found = judge(scene.history(targets=(client, target(3, 12_800))))
    only(found, "target 2 was computed under coordination client, not server")
    scene.samples[3:] = [replace(s, mode_epoch=1, coordination="client") for s in scene.samples[3:]]
    switched = scene.history(targets=(client, target(3, 12_800)))
    assert judge(switched).held, "the look at 12.5 s may have read before the target"


def test_times_of_a_clock_that_went_back_order_no_targets(scene: Scene) -> None:
    scene.asked = Asked(faults=("clock-back",), agents=2, partitions=2, fast=True)
    assert judge(scene.history(targets=(target(2, 11_000), target(3, 900)))).held


def test_a_group_that_is_even_too_late_is_told(scene: Scene) -> None:
    late_ms = HEALED + scene.asked.bound_ms + 100
    scene.samples[3:] = [
        sample(HEALED + 100, {P1: (TWO, FENCE)}),
        sample(late_ms, {P0: (ONE, FENCE + 2), P1: (TWO, FENCE)}),
    ]
    bound_ms = scene.asked.bound_ms
    only(judge(scene.history()), f"even again {bound_ms + 100} ms after the heal, not within")
    only(judge(scene.history(samples=scene.samples[:4])), "not even again")
    assert judge(scene.history(stalls=((HEALED + 500, 200),))).held


def test_a_group_that_the_machine_left_no_time_to_recover_is_neither_late_nor_passed(
    scene: Scene,
) -> None:
    late_ms = HEALED + scene.asked.bound_ms + 100
    scene.samples[3:] = [sample(at, {P1: (TWO, FENCE)}) for at in (HEALED + 100, late_ms)]
    cut_short = judge(scene.history(stalls=((HEALED + 500, 200),)))
    assert (cut_short.violations, cut_short.healed, cut_short.exit_code) == ((), False, VACUOUS)
    only(judge(scene.history(stalls=((HEALED + 500, 99),))), "not even again")
    early = scene.history(samples=scene.samples[:4], stalls=((HEALED + 90, 80),))
    only(judge(early), "not even again 100 ms")


def test_a_group_that_nobody_could_look_at_is_not_judged_late(scene: Scene) -> None:
    found = judge(scene.history(samples=scene.samples[:2]))
    assert (found.recovered_ms, found.violations) == (None, ())
    assert (found.healed, found.exit_code) == (False, VACUOUS)


def test_an_agent_that_ended_by_itself_is_told(scene: Scene) -> None:
    only(judge(scene.history(ended=("light-2 ended with 1",))), "light-2 ended with 1")


def test_a_fault_that_did_nothing_is_vacuous_and_not_passed(scene: Scene) -> None:
    whole = scene.history()
    idle = replace(whole, faults=(replace(whole.faults[0], worked=False),))
    assert judge(idle).exit_code == VACUOUS
    assert judge(replace(whole, acknowledged=frozenset())).vacuous


def test_what_could_not_be_healed_is_not_passed(scene: Scene) -> None:
    verdict = judge(scene.history(healed_ms=None))
    assert (verdict.healed, verdict.exit_code) == (False, VACUOUS)


# --- figures and files


def test_the_figures_are_those_of_what_happened(scene: Scene) -> None:
    scene.answers = [Answer(11_200, ONE, str(P0), FENCE, "fenced", 7)]
    found = figures(scene.history(), 500)
    assert found["moves"] == 2
    assert found["avoidable_moves"] == 0
    assert (found["refused_commits"], found["processed_again"]) == (1, 7)
    assert (found["stickiness"], found["balance_degree"]) == (1.0, 0.0)
    assert found["unowned_ms"] == 100
    assert found["pause_ms"]["max"] == 2_500
    assert found["phases_ms"]["detect"]["count"] == 2


def test_a_partition_of_an_unhurt_owner_that_had_events_and_no_commit_has_paused(
    scene: Scene,
) -> None:
    assert figures(with_pause(scene), 500)["unaffected_paused"] == 1.0
    assert figures(with_pause(scene, until_ms=11_900), 500)["unaffected_paused"] == 0.0


def test_a_pause_without_events_or_without_a_cpu_is_not_the_groups(scene: Scene) -> None:
    idle = with_pause(scene, idle=range(11_000, 12_200))
    assert figures(idle, 500)["unaffected_paused"] == 0.0
    for name in ("light-2", REDIS, HARNESS):
        scene.samples[:] = starved(Scene(), {name: 600})
        assert figures(with_pause(scene), 500)["unaffected_paused"] == 0.0


def test_figures_that_nobody_can_know_are_none(scene: Scene) -> None:
    found = figures(scene.history(samples=(), targets=None, answers=None), None)
    for name in ("avoidable_moves", "balance_degree", "stickiness", "phases_ms", "refused_commits"):
        assert found[name] is None, name


def test_a_stored_run_is_judged_as_it_was(scene: Scene, tmp_path: Path) -> None:
    scene.answers = [Answer(11_200, ONE, str(P0), FENCE, "fenced")]
    history = scene.history()
    save(history, tmp_path)
    stored = load(tmp_path)
    assert judge(stored) == judge(history)
    assert figures(stored, 500) == figures(history, 500)
    assert isinstance(stored, History) and stored.asked == history.asked
    assert Offset(1, 0) > START
