"""Transitions of an agent's replicas, as values: no clock, no disk, no threads."""

from dataclasses import replace
from typing import Any

import pytest

from agent.replicas import core
from agent.replicas.core import Action, Failure, Replicas, Turn
from agent.replicas.replica import Place, Replica, ReplicaNews
from agent.state.restore import Progress
from assignment.member.messages import RestoreEnded
from assignment.member.replicas import Wanted
from assignment.types import Claim, Offset, Partition, Role

A, B, C = (Partition("flights", n) for n in range(3))
NOW, KEEP_MS = 1_000_000, 60_000
HERE = Place(Offset(9, 0), "9-7", 90)
FULL = Failure(why="no space left", state=True, full=True)


def wanting(*partitions: Partition, role: Role = Role.STANDBY, **more: Any) -> Replicas:
    wanted = Wanted(replicas=dict.fromkeys(partitions, role), **more)
    return core.want(Replicas(keep_unwanted_ms=KEEP_MS), wanted, NOW)


def turns(replicas: Replicas) -> list[Turn]:
    """All that are waiting, one after the other."""
    found = []
    while True:
        replicas, turn = core.take_turn(replicas)
        if turn is None:
            return found
        found.append(turn)


def running(replicas: Replicas) -> Replicas:
    return core.take_turn(replicas)[0]


def at_the_end(replicas: Replicas, partition: Partition = A, serves: Any = None) -> Replicas:
    """After a turn that came to the committed offset."""
    replicas, _ = core.arrive(running(replicas), partition, HERE, serves, NOW)
    return core.end_turn(replicas, partition)


def test_what_is_wanted_has_turns_one_after_the_other() -> None:
    assert turns(wanting(A, B)) == [Turn(A, Action.GO_ON, None), Turn(B, Action.GO_ON, None)]


def test_what_was_acquired_comes_before_all_others_and_only_once() -> None:
    claim = Claim(C, 7)
    replicas = core.order(wanting(A, B, C), claim)
    assert turns(replicas) == [
        Turn(C, Action.GO_ON, claim),
        Turn(A, Action.GO_ON, None),
        Turn(B, Action.GO_ON, None),
    ]


def test_wanting_the_same_again_changes_nothing() -> None:
    replicas = wanting(A, B)
    assert core.want(replicas, replicas.wanted, NOW + 5) == replicas


def test_a_replica_that_is_not_there_yet_has_another_turn_behind_the_others() -> None:
    replicas = core.end_turn(running(wanting(A, B)), A)
    assert [turn.partition for turn in turns(replicas)] == [B, A]


def test_what_is_asked_for_in_its_turn_has_another_one_after_it() -> None:
    replicas = core.order(running(wanting(A)), Claim(A, 7))
    assert turns(replicas) == []
    assert turns(core.end_turn(replicas, A)) == [Turn(A, Action.GO_ON, Claim(A, 7))]


def test_a_standby_at_the_committed_offset_waits_for_what_comes() -> None:
    replicas = at_the_end(wanting(A))
    assert (turns(replicas), replicas.tailed()) == ([], {A: "9-7"})
    assert turns(core.follow(replicas, {A, B})) == [Turn(A, Action.GO_ON, None)]
    assert replicas.elsewhere({A: Offset(9, 0)}) == set()
    assert replicas.elsewhere({A: Offset(5, 0)}) == {A}


def test_it_is_told_once_that_a_replica_caught_up() -> None:
    replicas, news = core.arrive(running(wanting(A)), A, HERE, None, NOW)
    assert news == (ReplicaNews(A, "standby"),)
    assert core.arrive(replicas, A, HERE, None, NOW)[1] == ()


def test_an_acquired_replica_is_handed_over_when_its_way_served_the_claim() -> None:
    claim = Claim(A, 7)
    ordered = running(core.order(Replicas(keep_unwanted_ms=KEEP_MS), claim))
    early, news = core.arrive(ordered, A, HERE, None, NOW)
    assert news == (), "what was committed before the claim may be missing"
    assert turns(core.end_turn(early, A)) == [Turn(A, Action.GO_ON, claim)]
    done, news = core.arrive(ordered, A, HERE, claim, NOW)
    assert news == (RestoreEnded(claim),)
    assert core.end_turn(done, A).of[A] == replace(
        Replica(partition=A, held=True), pace=_pace(done)
    )


def _pace(replicas: Replicas) -> Any:
    return replicas.of[A].pace


def test_progress_of_what_is_not_wanted_any_more_counts_for_nothing() -> None:
    replicas = core.want(running(wanting(A, role=Role.LEARNER)), Wanted(), NOW)
    assert core.note(replicas, A, Progress(90, 90, exact=True), NOW) == (replicas, ())
    assert core.arrive(replicas, A, HERE, None, NOW) == (replicas, ())
    assert core.fail(replicas, A, FULL, NOW)[1] == ()


@pytest.mark.parametrize(("eager", "called"), [(True, {A}), (False, set())])
def test_learners_are_called_ready_each_for_itself_or_all_together(
    eager: bool, called: set[Partition]
) -> None:
    replicas = at_the_end(wanting(A, B, role=Role.LEARNER, eager=eager))
    assert {p for p, report in replicas.reports(NOW).items() if report.ready} == called
    replicas = core.end_turn(core.arrive(running(replicas), B, HERE, None, NOW)[0], B)
    assert all(report.ready for report in replicas.reports(NOW).values())


def test_a_failure_is_told_once_and_tried_again_later_and_later() -> None:
    replicas, news = core.fail(running(wanting(A)), A, FULL, NOW)
    assert news == (ReplicaNews(A, "standby", "no space left"),)
    replicas = core.end_turn(replicas, A)
    assert (turns(replicas), replicas.due_ms()) == ([], NOW + 1_000)
    assert turns(core.due(replicas, NOW + 999)) == []
    again = running(core.due(replicas, NOW + 1_000))
    again, news = core.fail(again, A, FULL, NOW + 1_000)
    assert (news, core.end_turn(again, A).due_ms()) == ((), NOW + 3_000)


def test_what_has_caught_up_has_no_reason_not_to_go_on() -> None:
    """Also before it arrived: who is told that it is ready is told of no failure."""
    replicas = core.end_turn(core.fail(running(wanting(A)), A, FULL, NOW)[0], A)
    again = running(core.due(replicas, NOW + 1_000))
    far = core.note(again, A, Progress(10, 90, exact=False), NOW + 1_000)[0]
    assert [(one.ready, one.why) for one in far.reports(NOW).values()] == [(False, FULL.why)]
    near = core.note(far, A, Progress(90, 90, exact=True), NOW + 1_000)[0]
    assert [(one.ready, one.why) for one in near.reports(NOW).values()] == [(True, "")]


def test_a_claim_that_failed_is_answered_and_not_tried_again_by_itself() -> None:
    claim = Claim(A, 7)
    replicas = running(core.order(Replicas(keep_unwanted_ms=KEEP_MS), claim))
    replicas, news = core.fail(replicas, A, FULL, NOW)
    assert news == (RestoreEnded(claim, "no space left"),)
    assert not replicas.of[A].is_needed


def test_a_claim_that_failed_while_redis_was_away_is_no_fault_of_this_member() -> None:
    replicas = running(core.order(Replicas(keep_unwanted_ms=KEEP_MS), Claim(A, 7)))
    away = Failure(why="Redis away", state=False, full=False)
    _, news = core.fail(replicas, A, away, NOW)
    assert news == (RestoreEnded(Claim(A, 7), "Redis away", is_of_here=False),)


def test_what_is_unwanted_is_closed_kept_for_a_while_and_removed() -> None:
    replicas = core.want(at_the_end(wanting(A)), Wanted(), NOW)
    replicas, turn = core.take_turn(replicas)
    assert turn == Turn(A, Action.REST, None)
    replicas = core.end_turn(replicas, A)
    assert (turns(replicas), replicas.due_ms()) == ([], NOW + KEEP_MS)
    replicas, turn = core.take_turn(core.due(replicas, NOW + KEEP_MS))
    assert turn == Turn(A, Action.REMOVE, None)
    assert core.end_turn(core.forget(replicas, A), A).of == {}


def test_what_is_wanted_again_while_it_is_removed_is_not_forgotten() -> None:
    replicas = core.due(core.want(at_the_end(wanting(A)), Wanted(), NOW), NOW + KEEP_MS)
    replicas = core.want(running(replicas), wanting(A).wanted, NOW + KEEP_MS)
    replicas = core.end_turn(core.forget(replicas, A), A)
    assert turns(replicas) == [Turn(A, Action.GO_ON, None)]


def test_what_the_consumer_holds_is_never_removed_nor_closed() -> None:
    claim = Claim(A, 7)
    ordered = core.order(Replicas(keep_unwanted_ms=KEEP_MS), claim)
    replicas = core.want(at_the_end(ordered, serves=claim), Wanted(held=frozenset({A})), NOW)
    assert (turns(core.due(replicas, NOW + 9 * KEEP_MS)), replicas.due_ms()) == ([], None)


def test_a_full_disk_makes_what_nobody_wants_go_at_once() -> None:
    replicas = core.want(at_the_end(wanting(A, B)), wanting(B).wanted, NOW)
    replicas, turn = core.take_turn(replicas)
    assert turn == Turn(B, Action.GO_ON, None)
    replicas, _ = core.fail(replicas, B, FULL, NOW)
    replicas, turn = core.take_turn(core.due(replicas, NOW))
    assert turn == Turn(A, Action.REMOVE, None)


def test_a_group_without_state_has_nothing_to_restore_until_it_has_some() -> None:
    replicas = wanting(A, stateful=False)
    assert (turns(replicas), replicas.reports(NOW)[A].ready) == ([], True)
    replicas = core.want(replicas, wanting(A).wanted, NOW)
    assert turns(replicas) == [Turn(A, Action.GO_ON, None)]
    assert not replicas.reports(NOW)[A].ready
