"""One member over the fake Redis: what the loop asks of it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from agent.loop import Agent
from agent.membership import Membership
from agent.store.group import GroupStore
from assignment.member.messages import (
    ConsumerSeen,
    IdentityHeard,
    IdentityRead,
    Joined,
    OwnedSeen,
    RestoreEnded,
    TargetSeen,
)
from assignment.member.replicas import Wanted
from assignment.member.state import ConsumerState, unable_because
from assignment.pauses import Pause, Pauses
from assignment.scripts import agent_side, dashboard_side, group_read, values
from assignment.scripts.pausing import set_pauses
from assignment.types import (
    START,
    Claim,
    GroupSettings,
    Held,
    HeldState,
    Partition,
    ReplicaReport,
    TargetRow,
    UnableReason,
)
from assignment.wire import StreamKeys
from tests.fakes import FakeDoor, FakeRedis

SETTINGS = GroupSettings(stream="s", partitions=2)
ZERO = Partition("s", 0)


class Scene:
    """Member "a" beside others that the test makes."""

    def __init__(self) -> None:
        self.server = FakeRedis()
        self.store = GroupStore(FakeDoor(self.server), "g")
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.ordered: list[Claim] = []
        self.run(dashboard_side.configure(SETTINGS, "test", rebalance_due=False))
        self.run(dashboard_side.set_incarnation(1))
        self.member = self.membership("a")

    def run(self, call: values.Call[Any]) -> Any:
        return self.store.run(call)

    def membership(self, name: str) -> Membership:
        self.run(dashboard_side.join(name, "a secret of sixteen letters", {}))
        member = Membership(
            store=self.store,
            member_id=name,
            settings=SETTINGS,
            replicas=self,
            clock=lambda: self.server.now_ms,
            note=lambda event, **fields: self.log.append((event, fields)),
        )
        member.feed(Joined())
        member.feed(ConsumerSeen(ConsumerState.READY, stateful=False))
        member.renew()
        return member

    def order(self, claim: Claim) -> None:
        self.ordered.append(claim)

    def want(self, wanted: Wanted) -> None:
        """It keeps no replicas."""

    def reports(self) -> dict[Partition, ReplicaReport]:
        return {}

    def assign(self, **numbers: set[int]) -> None:
        self.run(dashboard_side.request_rebalance("test"))
        view = self.run(group_read.read_group(group_read.Purpose.REBALANCE))
        rows = {
            member: TargetRow(
                target_epoch=view.meta.group_epoch,
                active=frozenset(Partition("s", n) for n in owned),
            )
            for member, owned in numbers.items()
        }
        self.run(dashboard_side.set_target(view, rows))

    def events(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.log if event == name]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_renew_brings_the_target_and_it_is_followed(scene: Scene) -> None:
    scene.assign(a={0, 1})
    scene.member.renew()
    assert scene.member.reconcile() == []
    assert len(scene.member.state.held) == 2
    assert len(scene.events("running")) == 2


def test_it_waits_for_an_owner_and_says_so_once(scene: Scene) -> None:
    scene.assign(a={0})
    scene.member.renew()
    scene.member.reconcile()
    other = scene.membership("b")
    scene.assign(b={0}, a=set())
    for _ in range(3):
        scene.server.advance(1_000)
        other.renew()
        other.reconcile()
    assert [e["why"] for e in scene.events("waiting")] == ["waiting for a"]


def test_a_release_that_was_refused_makes_it_read_what_is(scene: Scene) -> None:
    scene.assign(a={0})
    scene.member.renew()
    scene.member.reconcile()
    fence = scene.member.state.held[ZERO].fence
    scene.member.feed(OwnedSeen({ZERO: Held(fence=fence, state=HeldState.REVOKED)}))  # outdated
    scene.assign(a=set())
    scene.member.read_target()
    scene.member.reconcile()
    assert scene.events("released") == []
    assert scene.store.owned("a") == {ZERO: Held(fence=fence, state=HeldState.REVOKING)}
    assert scene.member.state.held[ZERO].state is HeldState.REVOKING


def test_a_target_that_redis_does_not_have_grants_nothing(scene: Scene) -> None:
    row = TargetRow(target_epoch=99, incarnation=1, active=frozenset({ZERO}))
    scene.member.feed(TargetSeen(row))
    scene.member.reconcile()
    assert scene.member.state.held == {}
    assert scene.events("waiting")[0]["why"] == "the target in Redis does not give it"


def test_after_a_redis_restart_nothing_is_granted_until_the_incarnation_is_raised(
    scene: Scene,
) -> None:
    scene.assign(a={0})
    scene.server.restart()
    scene.member.renew()
    scene.member.reconcile()
    assert scene.events("waiting")[0]["why"] == "no_incarnation"
    scene.run(dashboard_side.set_incarnation(2))
    scene.member.renew()
    scene.member.reconcile()
    assert scene.member.state.held[ZERO].fence == 2 * 2**32 + 1


def test_a_state_that_a_restarted_redis_lost_is_written_again(scene: Scene) -> None:
    """Else the partition runs for its agent and is not read by its consumer, until it stalls."""
    scene.assign(a={0})
    scene.member.renew()
    scene.member.reconcile()
    running = scene.store.owned("a")
    assert running[ZERO].state is HeldState.RUNNING
    scene.server.restart()
    owned = scene.server.hash(scene.store.keys.owned("a"))
    owned[str(ZERO).encode()] = b"%d restoring" % running[ZERO].fence  # its last write is lost
    scene.run(dashboard_side.set_incarnation(2))
    scene.member.renew()
    scene.member.reconcile()
    scene.store.run(agent_side.next_batch("a"))
    scene.member.read_owned()
    scene.member.reconcile()
    assert scene.store.owned("a")[ZERO].state is HeldState.RUNNING


def test_lag_is_an_entry_above_the_committed_offset_of_what_runs_here(scene: Scene) -> None:
    scene.assign(a={0})
    scene.member.renew()
    assert not scene.member.lagging(())
    scene.server.ask("XADD", StreamKeys("s").entries(0), "*", "event", "1")
    assert not scene.member.lagging(())  # not running yet
    scene.member.reconcile()
    assert scene.member.lagging(()) == {ZERO: START}
    assert not scene.member.lagging({ZERO})
    pause = Pause(actor="ann", reason="", at_ms=1)
    scene.run(set_pauses(Pauses(version=1, group=pause), 0))
    assert not scene.member.lagging(())  # nobody restarts a consumer for it


def test_what_cannot_be_restored_here_is_released_and_its_member_goes_on(scene: Scene) -> None:
    scene.member.feed(ConsumerSeen(ConsumerState.READY, stateful=True))
    scene.assign(a={0, 1})
    scene.member.renew()
    scene.member.reconcile()
    one = Partition("s", 1)
    scene.member.restored(RestoreEnded(Claim(one, scene.member.state.held[one].fence)))
    broken = Claim(ZERO, scene.member.state.held[ZERO].fence)
    for _ in range(3):
        scene.member.reconcile()
        scene.member.restored(RestoreEnded(broken, "disk full"))
        scene.server.advance(2_000)
    scene.member.renew()
    scene.member.reconcile()
    assert scene.store.owned("a").keys() == {one}
    assert scene.events("released")[0]["partition"] == "s:0"
    assert [e["why"] for e in scene.events("cannot be served here")] == ["restore: disk full"]
    assert not scene.member.state.waiting


def test_one_member_more_than_partitions_says_that_it_is_idle(scene: Scene) -> None:
    for name in ("b", "c"):
        scene.membership(name)
    scene.assign(a=set(), b={0}, c={1})
    scene.member.renew()
    scene.member.say_when_idle()
    assert not scene.events("idle: 2 partitions, 3 members")
    for _ in range(3):
        scene.member.say_when_idle()
    assert len(scene.events("idle: 2 partitions, 3 members")) == 1


# --- another Redis than the dashboard's -----------------------------------------------------------


def stranger(scene: Scene, identity: str) -> Membership:
    """Taken in by a dashboard whose group has that identity; this Redis has no such member."""
    lost = Membership(
        store=scene.store,
        member_id="nobody",
        settings=SETTINGS,
        replicas=scene,
        clock=lambda: scene.server.now_ms,
        note=lambda event, **fields: scene.log.append((event, fields)),
    )
    lost.feed(IdentityHeard(identity))
    lost.feed(Joined())
    lost.feed(ConsumerSeen(ConsumerState.READY))
    return lost


def reason(of: Membership, scene: Scene) -> UnableReason | None:
    because = unable_because(of.state, scene.server.now_ms)
    return because.reason if because else None


def test_whoever_reads_another_group_of_that_name_is_unable_and_joins_no_more(scene: Scene) -> None:
    configure = dashboard_side.configure(
        SETTINGS, "test", rebalance_due=False, identity="another's"
    )
    scene.run(configure)
    lost = stranger(scene, "the dashboard's")
    assert lost.renew() is None
    assert reason(lost, scene) is UnableReason.WRONG_REDIS
    assert lost.reconcile() == [], "it does not join anew"
    assert scene.events("fenced") == []


def test_nothing_of_another_groups_settings_and_epochs_is_taken(scene: Scene) -> None:
    """Its incarnation would never be forgotten again."""
    configure = dashboard_side.configure(
        SETTINGS, "test", rebalance_due=False, identity="another's"
    )
    scene.run(configure)
    lost = stranger(scene, "the dashboard's")
    lost.read_target()
    settings_epoch = lost.settings_epoch.number
    scene.run(dashboard_side.set_incarnation(9))
    lost.read_target()
    assert (lost.state.incarnation, lost.settings_epoch.number) == (0, settings_epoch)


def test_a_redis_without_the_group_is_a_wrong_one_after_a_lease(scene: Scene) -> None:
    """Before that it may just have been wiped: its member joins anew."""
    scene.store.door.ask("DEL", scene.store.keys.meta)
    lost = stranger(scene, "the dashboard's")
    assert lost.renew() is None
    assert scene.events("fenced") and not lost.state.joined
    scene.server.advance(SETTINGS.lease_ms + 1)
    lost.feed(Joined())
    lost.renew()
    assert lost.state.joined
    assert reason(lost, scene) is UnableReason.WRONG_REDIS


def test_once_it_reads_the_right_redis_again_it_goes_on(scene: Scene) -> None:
    lost = stranger(scene, "the dashboard's")
    scene.server.advance(SETTINGS.lease_ms + 1)
    lost.feed(IdentityRead("another's"))
    assert reason(lost, scene) is UnableReason.WRONG_REDIS
    scene.run(dashboard_side.join("nobody", "a secret of sixteen letters", {}))
    assert lost.renew() is not None
    assert reason(lost, scene) is None


def test_a_renew_that_brings_a_longer_lease_counts_by_the_one_it_asked_for(scene: Scene) -> None:
    """The lock has the old length until the next renew, which must not come later than before."""
    sent: list[int] = []
    line = SimpleNamespace(send_lease_end=sent.append, send_settings=lambda settings: None)
    agent = Agent(
        **dict.fromkeys(("control", "session", "inbox"), None),  # type: ignore[arg-type]
        membership=scene.member,
        consumer=SimpleNamespace(line=line),  # type: ignore[arg-type]
        clock=lambda: scene.server.now_ms,
        note=lambda *args, **fields: None,
    )
    agent._renew()
    longer = replace(SETTINGS, lease_ms=60_000, renew_ms=20_000)
    scene.run(dashboard_side.configure(longer, "test", rebalance_due=False))
    scene.assign(a={0})
    agent._renew()
    assert scene.member.state.settings == longer
    now_ms = scene.server.now_ms
    assert sent[-1] == now_ms + SETTINGS.lease_ms * 4 // 5
    assert agent._next_renew_ms == now_ms + SETTINGS.renew_ms
    agent._renew()
    assert sent[-1] == now_ms + longer.lease_ms * 4 // 5
    assert agent._next_renew_ms == now_ms + longer.renew_ms
