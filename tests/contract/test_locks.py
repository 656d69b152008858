"""The lock is the handover: acquire, renew, release, sweep (coordination.md section 2)."""

import pytest

from assignment.errors import Fenced, InvalidInput
from assignment.scripts import agent_side
from assignment.scripts.agent_side import Granted, HeldBy, NotTarget, Refusal
from assignment.scripts.values import INCARNATION_MAX
from assignment.types import INCARNATION_STEP, Claim, Epoch, HeldState, Partition
from tests.contract.world import ANOTHER_RUN, LONG_MS, P0, P1, P2, World

FIRST = INCARNATION_STEP + 1
RESTORING, RUNNING, REVOKED = HeldState.RESTORING, HeldState.RUNNING, HeldState.REVOKED


def test_a_free_partition_is_granted_with_lock_grant_state_and_event(world: World) -> None:
    world.stand(a={P0})
    assert world.acquire("a", P0) == (Granted(P0, FIRST, RESTORING),)

    group = world.read()
    lock, grant = group.locks[P0], group.grants[P0]
    assert (lock.member_id, lock.fence) == ("a", FIRST)
    assert 0 < lock.left_ms <= LONG_MS
    assert (grant.fence, grant.member_id, grant.ended) == (FIRST, "a", None)
    assert world.store.owned("a")[P0].fence == FIRST
    (event,) = world.events()
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


def test_acquire_repeated_after_a_lost_reply_gives_the_same_fence(world: World, fence: int) -> None:
    assert world.acquire("a", P0) == (Granted(P0, fence, RUNNING),)
    assert world.kinds() == ["acquired"]


def test_acquire_repeated_gives_a_whole_lease_again(world: World) -> None:
    world.stand(a={P0})
    world.acquire("a", P0, ttl_ms=LONG_MS)
    world.acquire("a", P0, ttl_ms=2 * LONG_MS)
    assert world.read().locks[P0].left_ms > LONG_MS


def test_acquire_repeated_mends_a_lost_owned_field(real_world: World) -> None:
    world = real_world
    world.stand(a={P0})
    fence = world.running("a", P0)
    world.door.ask("DEL", world.keys.owned("a"))
    assert world.acquire("a", P0) == (Granted(P0, fence, RESTORING),)
    assert world.store.owned("a")[P0].state is RESTORING


def test_acquire_mends_a_lost_grant(real_world: World) -> None:
    world = real_world
    world.stand(a={P0})
    fence = world.fence("a", P0)
    world.door.ask("HDEL", world.keys.grants, str(P0))
    assert world.fence("a", P0) == fence
    assert world.read().grants[P0].fence == fence
    world.door.ask("HDEL", world.keys.grants, str(P0))
    assert world.release("a", {P0: fence}) == (True,)
    assert world.kinds() == ["acquired", "released"]


def test_acquire_of_one_that_is_no_member_is_fenced(world: World) -> None:
    world.stand(a={P0})
    with pytest.raises(Fenced):
        world.acquire("stranger", P0)
    assert world.events() == []


def test_acquire_under_another_mode_epoch_is_refused(world: World) -> None:
    world.stand(a={P0})
    assert world.acquire("a", P0, mode_epoch=2) is Refusal.WRONG_MODE
    assert world.lock(P0) is None


def test_acquire_is_refused_before_an_incarnation_is_set(world: World) -> None:
    world.configure()
    world.join("a")
    world.assign(a={P0})
    assert world.acquire("a", P0, incarnation=0) is Refusal.NO_INCARNATION
    assert world.acquire("a", P0, incarnation=1) is Refusal.NO_INCARNATION


def test_acquire_with_an_outdated_incarnation_is_refused(world: World) -> None:
    world.stand(a={P0})
    world.set_incarnation(2)
    assert world.acquire("a", P0, incarnation=1) is Refusal.NO_INCARNATION
    assert world.fence("a", P0, incarnation=2) == 2 * INCARNATION_STEP + 1


def test_acquire_is_refused_after_the_run_of_redis_changed(world: World) -> None:
    world.stand(a={P0, P1})
    fence = world.fence("a", P0)
    world.another_run()
    assert not world.read().grants_are_possible
    assert world.acquire("a", P0) is Refusal.NO_INCARNATION
    assert world.acquire("a", P1) is Refusal.NO_INCARNATION
    assert world.store.run(agent_side.renew("a", LONG_MS, [Claim(P0, fence)])).held == (
        True,
    )  # held ones go on

    world.set_incarnation(2)
    assert world.fence("a", P1, incarnation=2) == 2 * INCARNATION_STEP + 1


def test_a_higher_incarnation_is_set_once_and_never_lowered(world: World) -> None:
    world.configure()
    assert world.set_incarnation(3) == (True, 3)
    assert world.set_incarnation(3) == (False, 3)
    assert world.set_incarnation(2) == (False, 3)


def test_an_incarnation_that_was_chosen_for_another_run_of_redis_is_refused(world: World) -> None:
    """That run's data may be gone: what was high enough then may have been used since."""
    world.configure()
    assert world.set_incarnation(3, run_id=ANOTHER_RUN) == (False, 0)
    assert world.set_incarnation(3, run_id=world.read().run_id) == (True, 3)


def test_acquire_outside_of_the_target_is_refused_even_when_the_lock_is_ours(world: World) -> None:
    world.stand(a={P0})
    world.fence("a", P0)
    world.assign(a=set())
    assert world.acquire("a", P0) == (NotTarget(P0),)
    assert world.lock(P0) is not None


def test_acquire_without_any_target_row_is_refused(world: World) -> None:
    world.stand(a={P0})
    world.join("late")
    assert world.acquire("late", P0) == (NotTarget(P0),)


def test_fences_grow_by_one_per_grant_within_an_incarnation(world: World) -> None:
    world.stand(a={P0})
    for expected in (FIRST, FIRST + 1, FIRST + 2):
        fence = world.fence("a", P0)
        assert fence == expected
        world.release("a", {P0: fence})


def test_fences_are_exact_at_the_highest_incarnation(world: World) -> None:
    fence = world.highest_fence()
    assert fence == INCARNATION_MAX * INCARNATION_STEP + 1
    world.release("a", {P0: fence})
    assert world.fence("a", P0, incarnation=INCARNATION_MAX) == fence + 1
    assert world.read().grants[P0].fence == fence + 1


def test_a_lost_lock_is_expired_in_history_before_the_next_grant(world: World, fence: int) -> None:
    world.let_expire("a", Claim(P0, fence))
    until_ms = world.read().grants[P0].until_ms
    world.assign(b=set(), a={P0})
    assert world.fence("a", P0) == fence + 1
    _, expired, acquired = world.events()
    assert (expired.kind, expired.member_id, expired.fence) == ("expired", "a", fence)
    assert expired.at_ms == until_ms
    assert (acquired.kind, acquired.fence) == ("acquired", fence + 1)
    assert acquired.at_ms > until_ms
    assert world.read().grants[P0].ended is None


def test_a_lost_lock_goes_to_the_one_that_the_target_names(world: World) -> None:
    world.stand(a={P0}, b=set())
    fence = world.running("a", P0)
    world.assign(b={P0})
    world.let_expire("a", Claim(P0, fence))
    assert world.fence("b", P0) == fence + 1
    assert world.store.owned("a") == {}
    assert list(world.store.owned("b")) == [P0]


def test_renew_moves_the_end_of_lock_and_grant(world: World, fence: int) -> None:
    before = world.read().grants[P0].until_ms
    world.pass_ms(2)
    renewed = world.store.run(agent_side.renew("a", LONG_MS, [Claim(P0, fence)]))
    assert renewed.held == (True,)
    after = world.read()
    assert after.grants[P0].until_ms > before
    assert after.locks[P0].left_ms <= LONG_MS


def test_renew_answers_the_epochs(world: World) -> None:
    world.stand(a={P0})
    renewed = world.store.run(agent_side.renew("a", LONG_MS, []))
    assert (renewed.incarnation, renewed.mode_epoch) == (1, 1)
    assert renewed.target == world.read().meta.target == Epoch(1, world.read().meta.target_epoch)
    assert renewed.held == ()


def test_renew_of_nothing_is_a_sign_of_life(world: World) -> None:
    world.stand(a=set())
    before = world.read().beats["a"]
    world.pass_ms(2)
    world.store.run(agent_side.renew("a", LONG_MS, []))
    assert world.read().beats["a"] > before


def test_renew_never_takes_an_expired_lock_again(world: World) -> None:
    world.stand(a={P0, P1})
    first, second = world.fence("a", P0), world.fence("a", P1)
    world.let_expire("a", Claim(P0, first))
    claims = [Claim(P0, first), Claim(P1, second)]
    assert world.store.run(agent_side.renew("a", LONG_MS, claims)).held == (False, True)
    assert world.lock(P0) is None


def test_renew_with_another_fence_or_of_anothers_lock_is_refused(world: World) -> None:
    world.stand(a={P0}, b={P1})
    fence, other = world.fence("a", P0), world.fence("b", P1)
    claims = [Claim(P0, fence - 1), Claim(P0, fence + 1), Claim(P1, other), Claim(P2, 7)]
    assert world.store.run(agent_side.renew("a", LONG_MS, claims)).held == (False,) * 4


def test_renew_of_one_that_is_no_member_touches_nothing(world: World, fence: int) -> None:
    world.evict("a", world.read().now_ms)
    with pytest.raises(Fenced):
        world.store.run(agent_side.renew("a", LONG_MS, [Claim(P0, fence)]))
    assert "a" not in world.read().beats


def test_renew_after_evict_and_joining_anew_holds_nothing(world: World, fence: int) -> None:
    world.evict("a", world.read().now_ms)
    world.join("a")
    assert world.store.run(agent_side.renew("a", LONG_MS, [Claim(P0, fence)])).held == (False,)


def test_a_member_that_joins_anew_keeps_its_live_locks(world: World, fence: int) -> None:
    world.join("a")
    assert world.store.run(agent_side.renew("a", LONG_MS, [Claim(P0, fence)])).held == (True,)
    assert world.fence("a", P0) == fence


def test_release_frees_the_lock_ends_the_grant_and_says_so(world: World) -> None:
    world.stand(a={P0}, b=set())
    fence = world.running("a", P0)
    after = world.store.last_hint_id()
    assert world.release("a", {P0: fence}) == (True,)
    grant = world.read().grants[P0]
    event = world.events()[-1]
    assert (event.kind, event.fence, event.at_ms) == ("released", fence, grant.until_ms)
    assert grant.ended == "released"
    assert world.store.owned("a") == {}
    (hint,) = world.store.wait_hints(after, 1).hints
    assert (hint.reason, hint.member_id) == ("released", "a")
    world.assign(b={P0})
    assert world.fence("b", P0) == fence + 1


def test_release_compares_member_and_fence(world: World) -> None:
    world.stand(a={P0}, b=set())
    fence = world.fence("a", P0)
    assert world.release("b", {P0: fence}) == (False,)
    assert world.release("a", {P0: fence + 1, P1: 1}) == (False, False)
    assert world.lock(P0) is not None
    assert world.kinds() == ["acquired"]


def test_a_release_that_arrives_late_takes_nothing_that_was_given_back(world: World) -> None:
    world.stand(a={P0})
    fence = world.running("a", P0)
    assert world.move("a", P0, fence, RUNNING, REVOKED)
    assert world.move("a", P0, fence, REVOKED, RUNNING)
    assert world.release("a", {P0: fence}, REVOKED) == (False,)
    assert world.lock(P0) is not None
    assert world.store.owned("a")[P0].state is RUNNING


def test_release_of_an_expired_lock_leaves_its_end_in_history(world: World, fence: int) -> None:
    world.let_expire("a", Claim(P0, fence))
    assert world.release("a", {P0: fence}) == (False,)
    assert world.sweep() == 1
    assert world.kinds() == ["acquired", "expired"]


def test_sweep_ends_only_what_ran_out_and_only_once(world: World) -> None:
    world.stand(a={P0, P1, P2})
    fences = {p: world.fence("a", p) for p in (P0, P1, P2)}
    world.release("a", {P1: fences[P1]})
    world.let_expire("a", Claim(P0, fences[P0]))
    until_ms = world.read().grants[P0].until_ms
    assert (world.sweep(), world.sweep()) == (1, 0)
    event = world.events()[-1]
    assert (event.kind, event.partition, event.at_ms) == ("expired", P0, until_ms)
    assert list(world.store.owned("a")) == [P2]


def test_a_swept_partition_is_granted_without_a_second_expired_event(
    world: World, fence: int
) -> None:
    world.let_expire("a", Claim(P0, fence))
    world.sweep()
    assert world.fence("a", P0) == fence + 1
    assert world.kinds() == ["acquired", "expired", "acquired"]


def test_events_are_numbered_without_gaps(world: World) -> None:
    world.stand(a={P0, P1})
    for partition in (P0, P1, P0):
        world.release("a", {partition: world.fence("a", partition)})
    assert [e.seq for e in world.events()] == [1, 2, 3, 4, 5, 6]


def test_many_partitions_are_acquired_and_renewed_at_once(world: World) -> None:
    many = [Partition("flights", n) for n in range(2_500)]
    world.configure(partitions=2_500)
    world.join("a")
    world.set_incarnation(1)
    world.assign(a=set(many))
    answer = world.acquire("a", *many)
    assert isinstance(answer, tuple) and len(answer) == 2_500
    claims = [Claim(a.partition, a.fence) for a in answer if isinstance(a, Granted)]
    assert world.store.run(agent_side.renew("a", LONG_MS, claims)).held == (True,) * 2_500
    assert len(world.read().locks) == 2_500
    assert world.release("a", dict(claims)) == (True,) * 2_500


@pytest.mark.parametrize("ttl_ms", [0, -1, 10**9])
def test_a_lease_without_length_or_end_is_refused(world: World, ttl_ms: int) -> None:
    world.stand(a={P0})
    with pytest.raises(InvalidInput, match=str(ttl_ms)):
        world.acquire("a", P0, ttl_ms=ttl_ms)
