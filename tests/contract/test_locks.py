"""The lock is the handover: acquire, renew, release, sweep (coordination.md section 2)."""

import pytest

from assignment.errors import Fenced, InvalidInput
from assignment.scripts.agent_side import Granted, HeldBy, NotTarget, Refusal, Renewed
from assignment.types import INCARNATION_STEP, Claim, Epoch, HeldState, Partition
from tests.contract.world import ANOTHER_RUN, LONG_MS, P0, P1, P2, World

FIRST = INCARNATION_STEP + 1
RESTORING, RUNNING, REVOKED = HeldState.RESTORING, HeldState.RUNNING, HeldState.REVOKED


def test_a_free_partition_is_granted_with_lock_grant_state_and_event(alone: World) -> None:
    assert alone.acquire("a", P0) == (Granted(P0, FIRST, RESTORING),)

    group = alone.read()
    lock, grant = group.locks[P0], group.grants[P0]
    assert (lock.member_id, lock.fence) == ("a", FIRST)
    assert 0 < lock.left_ms <= LONG_MS
    assert (grant.fence, grant.member_id, grant.ended) == (FIRST, "a", None)
    assert alone.store.owned("a")[P0].fence == FIRST
    (event,) = alone.events()
    assert (event.seq, event.kind, event.partition) == (1, "acquired", P0)
    assert (event.member_id, event.fence) == ("a", FIRST)
    assert grant.until_ms == event.at_ms + LONG_MS


def test_acquire_answers_every_partition_in_order(world: World) -> None:
    world.stand(a={P0, P2}, b={P1})
    world.fence("b", P1)
    world.assign(a={P0, P1}, b=set())
    first, second, third = world.acquire("a", P2, P1, P0)
    assert first == NotTarget(P2)
    assert isinstance(second, HeldBy) and (second.partition, second.member_id) == (P1, "b")
    assert 0 < second.left_ms <= LONG_MS
    assert third == Granted(P0, FIRST, RESTORING)


def test_one_that_is_asked_for_twice_is_granted_once(world: World) -> None:
    world.stand(a={P0})
    first, second = world.acquire("a", P0, P0)
    assert isinstance(first, Granted)
    assert second == first
    assert world.kinds() == ["acquired"]


def test_acquire_repeated_after_a_lost_reply_gives_the_same_fence_and_a_whole_lease(
    world: World, fence: int
) -> None:
    assert world.acquire("a", P0, ttl_ms=2 * LONG_MS) == (Granted(P0, fence, RUNNING),)
    assert world.read().locks[P0].left_ms > LONG_MS
    assert world.kinds() == ["acquired"]


def test_acquire_repeated_mends_a_lost_owned_field_and_grant(world: World, fence: int) -> None:
    world.door.ask("DEL", world.keys.owned("a"))
    assert world.acquire("a", P0) == (Granted(P0, fence, RESTORING),)
    assert world.store.owned("a")[P0].state is RESTORING
    world.door.ask("HDEL", world.keys.grants, str(P0))
    assert world.fence("a", P0) == fence == world.read().grants[P0].fence
    world.door.ask("HDEL", world.keys.grants, str(P0))
    assert world.release("a", {P0: fence}) == (True,)
    assert world.kinds() == ["acquired", "released"]


def test_one_that_is_no_member_is_fenced(alone: World) -> None:
    for ask in (lambda: alone.acquire("stranger", P0), lambda: alone.next_batch("stranger")):
        with pytest.raises(Fenced):
            ask()
    assert alone.events() == []


def test_acquire_is_refused_under_no_or_another_incarnation_or_mode_epoch(world: World) -> None:
    world.configure()
    world.join("a")
    world.assign(a={P0})
    for stored, said in ((0, 0), (0, 1), (2, 1)):
        if stored:
            world.set_incarnation(stored)
        assert world.acquire("a", P0, incarnation=said) is Refusal.NO_INCARNATION
    assert world.acquire("a", P0, incarnation=2, mode_epoch=2) is Refusal.WRONG_MODE
    assert P0 not in world.read().locks
    assert world.fence("a", P0, incarnation=2) == 2 * INCARNATION_STEP + 1


def test_acquire_is_refused_after_the_run_of_redis_changed(world: World) -> None:
    world.stand(a={P0, P1})
    fence = world.fence("a", P0)
    world.another_run()
    assert not world.read().grants_are_possible
    assert world.acquire("a", P0) is Refusal.NO_INCARNATION
    assert world.acquire("a", P1) is Refusal.NO_INCARNATION
    assert world.renew("a", Claim(P0, fence)).held == (True,)  # held ones go on
    world.set_incarnation(2)
    assert world.fence("a", P1, incarnation=2) == 2 * INCARNATION_STEP + 1


def test_a_higher_incarnation_is_set_once_never_lowered_and_only_for_this_run_of_redis(
    world: World,
) -> None:
    """Another run's data may be gone: what was high enough then may have been used since."""
    world.configure()
    assert world.set_incarnation(3, run_id=ANOTHER_RUN) == (False, 0)
    assert world.set_incarnation(3, run_id=world.read().run_id) == (True, 3)
    assert world.set_incarnation(3) == (False, 3)
    assert world.set_incarnation(2) == (False, 3)
    assert world.set_incarnation(4) == (True, 4)


def test_acquire_outside_of_the_target_is_refused_even_when_the_lock_is_ours(alone: World) -> None:
    alone.fence("a", P0)
    alone.assign(a=set())
    alone.join("late")
    assert alone.acquire("a", P0) == alone.acquire("late", P0) == (NotTarget(P0),)
    assert P0 in alone.read().locks


def test_fences_grow_by_one_per_grant_and_events_are_numbered_without_gaps(world: World) -> None:
    world.stand(a={P0, P1})
    for partition, fence in ((P0, FIRST), (P1, FIRST), (P0, FIRST + 1), (P0, FIRST + 2)):
        assert world.fence("a", partition) == fence
        world.release("a", {partition: fence})
    assert [e.seq for e in world.events()] == list(range(1, 9))


@pytest.mark.parametrize("swept", [False, True])
def test_a_lost_lock_is_expired_in_history_once_before_the_next_grant(
    world: World, fence: int, swept: bool
) -> None:
    world.let_expire("a", Claim(P0, fence))
    until_ms = world.read().grants[P0].until_ms
    if swept:
        world.sweep()
    assert world.fence("a", P0) == fence + 1
    _, expired, acquired = world.events()
    assert (expired.kind, expired.member_id, expired.fence) == ("expired", "a", fence)
    assert (acquired.kind, acquired.fence) == ("acquired", fence + 1)
    assert acquired.at_ms >= expired.at_ms == until_ms
    assert world.read().grants[P0].ended is None


def test_a_lost_lock_goes_to_the_one_that_the_target_names(
    world: World, moved: tuple[int, int]
) -> None:
    old, new = moved
    assert new == old + 1
    assert (world.store.owned("a"), list(world.store.owned("b"))) == ({}, [P0])


def test_renew_moves_the_end_of_lock_and_grant(world: World, fence: int) -> None:
    before = world.read().grants[P0].until_ms
    world.pass_ms(2)
    assert world.renew("a", Claim(P0, fence)).held == (True,)
    after = world.read()
    assert after.grants[P0].until_ms > before
    assert after.locks[P0].left_ms <= LONG_MS


def test_renew_of_nothing_is_a_sign_of_life_and_answers_the_epochs(alone: World) -> None:
    before = alone.read()
    alone.pass_ms(2)
    answer = alone.renew("a")
    assert answer == Renewed(1, Epoch(1, before.meta.target_epoch), mode_epoch=1, held=())
    assert alone.read().beats["a"] > before.beats["a"]


def test_renew_holds_nothing_that_expired_is_anothers_or_has_another_fence(world: World) -> None:
    expired, held, other = world.runs(a={P0, P1}, b={P2})
    world.let_expire("a", Claim(P0, expired))
    refused = Claim(P0, expired), Claim(P1, held - 1), Claim(P1, held + 1), Claim(P2, other)
    never_granted = Claim(Partition("flights", 3), 7)
    answer = world.renew("a", *refused, Claim(P1, held), never_granted)
    assert answer.held == (False, False, False, False, True, False)
    assert P0 not in world.read().locks


def test_a_member_that_joins_anew_keeps_its_live_locks_but_none_of_before_it_was_evicted(
    world: World, fence: int
) -> None:
    world.join("a")
    assert world.renew("a", Claim(P0, fence)).held == (True,)
    assert world.fence("a", P0) == fence
    world.evict("a")
    with pytest.raises(Fenced):
        world.renew("a", Claim(P0, fence))
    assert "a" not in world.read().beats
    world.join("a")
    assert world.renew("a", Claim(P0, fence)).held == (False,)


def test_release_by_member_and_fence_frees_the_lock_ends_the_grant_and_says_so(
    world: World,
) -> None:
    (fence,) = world.runs(a={P0}, b=set())
    assert world.release("b", {P0: fence}) == (False,)
    assert world.release("a", {P0: fence + 1, P1: 1}) == (False, False)
    assert (P0 in world.read().locks, world.kinds()) == (True, ["acquired"])
    after = world.last_change()
    assert world.release("a", {P0: fence}) == (True,)
    grant = world.read().grants[P0]
    event = world.events()[-1]
    assert (event.kind, event.fence, event.at_ms) == ("released", fence, grant.until_ms)
    assert (grant.ended, world.store.owned("a")) == ("released", {})
    assert world.changes(after) == [("released", "a")]
    world.assign(b={P0})
    assert world.fence("b", P0) == fence + 1


def test_a_release_that_arrives_late_takes_nothing_that_was_given_back(
    world: World, fence: int
) -> None:
    assert world.move("a", P0, fence, RUNNING, REVOKED)
    assert world.move("a", P0, fence, REVOKED, RUNNING)
    assert world.release("a", {P0: fence}, REVOKED) == (False,)
    assert P0 in world.read().locks
    assert world.store.owned("a")[P0].state is RUNNING


def test_sweep_ends_only_what_it_is_told_of(world: World) -> None:
    fences = world.runs(a={P0, P1, P2})
    for partition, fence in zip((P0, P1), fences, strict=False):
        world.let_expire("a", Claim(partition, fence))
    assert [world.sweep(P1, P2), world.sweep(P1, P2), world.sweep(P0)] == [1, 0, 1]
    assert [event.partition for event in world.events()[-2:]] == [P1, P0]
    assert world.sweep(Partition("h", 77)) == 0, "it was never granted"


def test_sweep_ends_only_what_ran_out_and_only_once(world: World) -> None:
    fences = world.runs(a={P0, P1, P2})
    world.release("a", {P1: fences[1]})
    world.let_expire("a", Claim(P0, fences[0]))
    assert world.release("a", {P0: fences[0]}) == (False,), "its end is left to the sweep"
    until_ms = world.read().grants[P0].until_ms
    assert (world.sweep(), world.sweep()) == (1, 0)
    event = world.events()[-1]
    assert (event.kind, event.partition, event.at_ms) == ("expired", P0, until_ms)
    assert list(world.store.owned("a")) == [P2]


def test_many_partitions_are_acquired_and_renewed_at_once(world: World) -> None:
    many = [Partition("flights", n) for n in range(2_500)]
    world.stand(a=set(many))
    answer = world.acquire("a", *many)
    claims = [Claim(a.partition, a.fence) for a in answer if isinstance(a, Granted)]
    assert world.renew("a", *claims).held == (True,) * 2_500
    assert len(world.read().locks) == 2_500
    assert world.release("a", dict(claims)) == (True,) * 2_500


@pytest.mark.parametrize("ttl_ms", [0, -1, 10**9])
def test_a_lease_without_length_or_end_is_refused(alone: World, ttl_ms: int) -> None:
    with pytest.raises(InvalidInput, match=str(ttl_ms)):
        alone.acquire("a", P0, ttl_ms=ttl_ms)
