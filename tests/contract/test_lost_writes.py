"""A Redis that lost writes: what it counts again is never taken for what was counted before."""

from dataclasses import replace

from assignment.scripts import agent_side
from assignment.scripts.agent_side import Granted, Refusal
from assignment.scripts.group_read import Purpose
from assignment.types import INCARNATION_STEP, Claim, Epoch, HeldState
from tests.contract.world import P0, P1, World
from tests.fakes import FakeDoor


def test_a_replica_that_was_promoted_under_its_old_run_id_grants_nothing(alone: World) -> None:
    """A primary that came back into its role late: only its replication id tells."""
    run_id, _, replication_id = alone.read().run_id.partition("/")
    assert (len(run_id), len(replication_id)) == (40, 40)
    if isinstance(alone.door, FakeDoor):
        alone.door.server.fail_over(same_run=True)
        alone = World(FakeDoor(alone.door.server), alone.store.group)
    else:
        alone.door.ask("HSET", alone.keys.meta, "run_id", f"{run_id}/{'e' * 40}")
    assert alone.acquire("a", P0) is Refusal.NO_INCARNATION
    assert not alone.read().grants_are_possible


def test_a_holder_gets_a_new_fence_once_the_incarnation_was_raised(alone: World) -> None:
    """Another may have had a newer one in a Redis whose last writes are lost."""
    before = alone.running("a", P0)
    alone.set_incarnation(2)
    (answer,) = alone.acquire("a", P0, incarnation=2)  # type: ignore[misc]
    assert answer == Granted(P0, 2 * INCARNATION_STEP + 1, HeldState.RESTORING)
    assert alone.kinds() == ["acquired", "released", "acquired"]
    assert alone.renew("a", Claim(P0, before)).held == (False,)
    again = alone.acquire("a", P0, incarnation=2)
    assert again == (answer,), "asked again after a lost reply"


def test_others_wait_for_the_lease_of_a_fence_from_before(world: World) -> None:
    world.stand(a={P0}, b=set())
    world.running("a", P0)
    world.set_incarnation(2)
    world.assign(b={P0}, a=set())
    (answer,) = world.acquire("b", P0, incarnation=2)  # type: ignore[misc]
    assert isinstance(answer, agent_side.HeldBy) and answer.member_id == "a"


def test_numbers_go_on_above_all_that_is_known_of_them(alone: World) -> None:
    before = alone.read().meta
    alone.set_incarnation(2, settings_epoch=0, event_seq=0)
    after = alone.read().meta
    assert (after.settings_epoch, after.event_seq) == (before.settings_epoch, before.event_seq)
    assert after.group_epoch == before.group_epoch + 1, "a target is due"
    assert 0 < before.incarnation_at_ms <= after.incarnation_at_ms <= alone.read().now_ms
    known = {"group_epoch": 70, "settings_epoch": 9, "mode_epoch": 5, "event_seq": 400}
    alone.set_incarnation(3, **known)
    meta = alone.read().meta
    assert (meta.group_epoch, meta.settings_epoch, meta.mode_epoch) == (71, 9, 5)
    assert meta.event_seq == 400
    assert meta.target == Epoch(1, 3), "the stored target stays what it was"
    alone.assign(a={P0})
    assert alone.read().meta.target == Epoch(3, 72)


def test_a_target_made_before_the_incarnation_was_raised_is_stale(alone: World) -> None:
    """Also when coordinator_epoch is counted anew and comes to the same number."""
    group = alone.due()
    alone.set_incarnation(2)
    epoch = str(group.meta.coordinator_epoch)
    alone.door.ask("HSET", alone.keys.meta, "coordinator_epoch", epoch)
    assert alone.set_target(group, a={P1}) is not None


def test_no_target_is_stored_while_redis_may_have_lost_writes(alone: World) -> None:
    """Its group_epoch may be one that another target had already."""
    before = alone.due()
    alone.another_run()
    read_anew = alone.read(Purpose.REBALANCE)
    assert alone.set_target(before, a={P1}) is not None
    assert alone.set_target(read_anew, a={P1}) is not None
    stale = replace(read_anew, run_id="f" * 40)
    assert alone.set_target(stale, a={P1}) is not None


# --- who is waited for ----------------------------------------------------------------------------


def test_a_member_that_joins_again_and_again_is_asked_once(world: World) -> None:
    world.configure()
    world.join("a")
    first = world.read().asked["a"]
    world.pass_ms(3)
    world.join("a")
    assert world.read().asked["a"] == first
    world.report("a", 1)
    assert world.read().asked == {}


def test_a_rebalance_is_due_since_the_first_change_after_the_last_target(world: World) -> None:
    world.stand(a=set())
    stored = world.read().meta.due_since_ms
    world.pass_ms(3)
    world.join("b")
    due = world.read().meta.due_since_ms
    assert due > stored
    world.pass_ms(3)
    world.join("b")
    assert world.read().meta.due_since_ms == due
