"""Agents as the dashboard sees them: what their routes write, without HTTP, and calls by HTTP."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from assignment.scripts import agent_side, dashboard_side, group_read, heartbeat
from assignment.scripts.agent_side import Granted
from assignment.troubles import Halted, Unserved, trouble_values
from assignment.types import Drain, Held, HeldState, Partition, ReplicaReport, Role, TargetRow
from assignment.wire import ConsumerHealth, Heartbeat, Status, parse_target
from dashboard import coordinator
from dashboard.actions import groups
from dashboard.agents.routes import AgentApi
from dashboard.live.scripts import run
from dashboard.models import AuditSource, Group, Tenure
from dashboard.records.audit import By

SECRET = "a secret of sixteen letters or more"
JOIN = {"member": "m1", "secret": SECRET, "host": "here"}
BEAT = {"member": "m1", "secret": SECRET, "sequence": 1, "report": 1, "complete": True}


def make_group(name: str, partitions: int = 4, **settings: Any) -> Group:
    """Through the front door, and ticked once so that grants are possible."""
    groups.create_group(
        name,
        stream=settings.pop("stream", f"s-{name}"),
        partitions=partitions,
        by=By("ann", AuditSource.PAGE),
        **settings,
    )
    coordinator.tick()
    return Group.objects.get(name=name)


class FakeAgent:
    """Says and does what a well-behaved agent would, when told to."""

    def __init__(self, group: Group, member: str) -> None:
        self.group, self.member = group, member
        self.sequence = 0
        self.held: dict[Partition, int] = {}
        self.replicas: dict[Partition, ReplicaReport] = {}
        self.unserved: dict[Partition, Unserved] = {}
        self.halted: list[Halted] = []
        self.ended = False

    def join(self) -> None:
        arguments = dashboard_side.join(self.member, SECRET, {"host": "here", "version": "1"})
        run(arguments, self.group.name)

    def beat(
        self, *, able: bool = True, leaving: bool = False, epoch: int = 0, **consumer: Any
    ) -> Any:
        self.sequence += 1
        owned = {str(p): f"{fence} {HeldState.RUNNING}" for p, fence in self.held.items()}
        beat = Heartbeat(
            member=self.member,
            secret=SECRET,
            report=self.sequence,
            sequence=self.sequence,
            complete=True,
            owned=owned,
            consumer=ConsumerHealth(halted=tuple(map(trouble_values, self.halted)), **consumer),
            able=able,
            leaving=leaving,
            target_epoch=epoch,
            replicas={str(p): replica for p, replica in self.replicas.items()},
            unserved={str(p): one for p, one in self.unserved.items()},
            ready=[str(p) for p, c in self.replicas.items() if c.ready and c.role is Role.LEARNER],
        )
        return run(heartbeat.report(beat), self.group.name).reply

    def start(self) -> None:
        self.join()
        self.beat()

    def follow(self) -> None:
        """Releases what the target takes, acquires what it gives, and reports.

        Replicas begin 100 events behind. Told to leave, it leaves when it has nothing any more.
        """
        answer = self.beat()
        if answer.status is Status.FENCED:
            self.held.clear()
            return
        target = TargetRow(target_epoch=0)
        if answer.target is not None:
            target = parse_target(bytes(answer.target).decode())
        self.release(p for p in tuple(self.held) if p not in target.active)
        self.acquire(target.active)
        self._replica(target)
        told = Drain(self.beat(epoch=target.target_epoch).drain)
        has_something = self.held or target.active
        if told is Drain.FORCED or (told is Drain.LEAVING and not has_something):
            self.leave()
            self.ended = True

    def _replica(self, target: TargetRow) -> None:
        roles = dict.fromkeys(target.standby, Role.STANDBY)
        roles |= dict.fromkeys(target.learning, Role.LEARNER)
        roles |= {
            p: c.role for p, c in self.replicas.items() if p in target.active - set(self.held)
        }
        behind = ReplicaReport(role=Role.STANDBY, lag=100, percent=50.0, rate=100.0, eta_ms=1_000)
        self.replicas = {
            p: replace(self.replicas.get(p, behind), role=role) for p, role in roles.items()
        }

    def catch_up(self, *numbers: int) -> None:
        """Its replicas of these partitions, or all of them, have caught up; it says so."""
        for partition, replica in self.replicas.items():
            if not numbers or partition.number in numbers:
                caught = replace(replica, lag=0, percent=100.0, eta_ms=0, ready=True)
                self.replicas[partition] = caught
        self.beat()

    def acquire(self, partitions: Iterable[Partition]) -> agent_side.AcquireAnswer:
        meta = run(group_read.read_group(group_read.Purpose.LOOK), self.group.name).meta
        arguments = agent_side.acquire(
            self.member, self.group.values.lease_ms, meta.mode_epoch, meta.incarnation, partitions
        )
        answer = run(arguments, self.group.name)
        if isinstance(answer, tuple):
            self.held |= {a.partition: a.fence for a in answer if isinstance(a, Granted)}
        return answer

    def release(self, partitions: Iterable[Partition]) -> None:
        held = {
            p: Held(fence=self.held.pop(p), state=HeldState.RESTORING) for p in tuple(partitions)
        }
        run(agent_side.release(self.member, held), self.group.name)

    def leave(self) -> None:
        self.held.clear()
        self.replicas.clear()
        run(dashboard_side.leave(self.member, SECRET), self.group.name)


def token_of(group: Group, **more: Any) -> str:
    return groups.create_token(group, by=By("ann", AuditSource.PAGE), **more).text


class Caller:
    """Speaks ASGI to one AgentApi on one loop, as a server would."""

    def __init__(self, group: str, token: str) -> None:
        self.group, self.token, self.api = group, token, AgentApi()

    async def post(self, verb: str, body: Any, **other: Any) -> tuple[int, Any]:
        sent: list[dict[str, Any]] = []
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        token = other.get("token", self.token)
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        scope = {
            "type": "http",
            "method": other.get("method", "POST"),
            "path": f"/api/agent/v1/{other.get('group', self.group)}/{verb}",
            "headers": headers,
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.api(scope, receive, send)
        if sent[0]["status"] != 200:
            assert dict(sent[0]["headers"])[b"content-type"] == b"application/problem+json"
        return sent[0]["status"], json.loads(sent[1]["body"])


def tick() -> int:
    """With what a worker does beside it at once: history, and what waited for that."""
    looked_at = coordinator.tick()
    coordinator.keep_history()
    return looked_at


def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


async def noted_in_time(found: Callable[[], Any]) -> Any:
    """What is written beside the answer."""
    async with asyncio.timeout(10):
        while (what := await asyncio.to_thread(found)) is None:
            await asyncio.sleep(0.01)
    return what


def owners(group: Group) -> dict[int, str]:
    return {t.number: t.member_id for t in Tenure.objects.filter(group=group, ended_ms=None)}
