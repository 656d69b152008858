"""A stateful group whose members do what they are told, round by round."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from assignment.scripts.group_read import Purpose
from assignment.types import Drain
from dashboard import coordinator
from dashboard.actions import scale_down
from dashboard.live import groups as live_groups
from dashboard.models import AuditSource, Group, Rebalance, ScaleDown
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, make_group, tick


class Scene:
    """Five partitions unless told otherwise: S1 has 0 3, S2 has 1 4, S3 has 2."""

    def __init__(self, name: str, members: Iterable[str] = ("S1", "S2", "S3"), **settings: Any):
        chosen = {"partitions": 5, "stateful": True} | settings
        self.group: Group = make_group(name, **chosen)
        self.agents: dict[str, FakeAgent] = {}
        for member in members:
            self.join(member)
        self.settle()

    def join(self, member: str) -> FakeAgent:
        """In a later millisecond than the one before: who is youngest is sure."""
        now_ms = live_groups.redis_now_ms()
        while live_groups.redis_now_ms() == now_ms:
            pass
        agent = self.agents[member] = FakeAgent(self.group, member)
        agent.start()
        return agent

    def round(self) -> None:
        """A rebalance when one is due, then every member follows, and the tick sees it."""
        coordinator.rebalance(self.group.name)
        for agent in self.here:
            agent.follow()
        tick()

    def settle(self) -> None:
        """Rounds until nothing moves; learners that are placed stay behind."""
        for _ in range(3):
            self.round()

    @property
    def here(self) -> list[FakeAgent]:
        return [agent for agent in self.agents.values() if not agent.ended]

    @property
    def owned(self) -> dict[str, list[int]]:
        return {a.member: sorted(p.number for p in a.held) for a in self.here}

    @property
    def last(self) -> Rebalance:
        row = Rebalance.objects.filter(group=self.group).first()
        assert row is not None
        return row

    def learning(self) -> dict[str, list[int]]:
        return {m: roles["learning"] for m, roles in self.last.roles.items() if roles["learning"]}

    def scale_down(self) -> ScaleDown:
        row = ScaleDown.objects.filter(group=self.group).first()
        assert row is not None
        return row

    def outcomes(self) -> dict[str, str]:
        return {m: entry["outcome"] for m, entry in sorted(self.scale_down().members.items())}


BY_ANN = By("ann", AuditSource.PAGE)


def start(scene: Scene, reason: str = "", **asked: Any) -> ScaleDown:
    return scale_down.start(scene.group, replace(BY_ANN, reason=reason), **asked)


def told(scene: Scene) -> dict[str, str]:
    view = live_groups.read(scene.group.name, Purpose.LOOK)
    return {m: row.drain.value for m, row in view.members.items() if row.drain is not Drain.NONE}


def epoch(scene: Scene) -> int:
    return live_groups.read(scene.group.name, Purpose.LOOK).meta.group_epoch
