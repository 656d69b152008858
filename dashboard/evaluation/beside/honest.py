"""Groups whose members do what agents do, and how long the dashboard takes to answer them.

    python -m dashboard.evaluation.beside.honest WEB_PORT REDIS_PORT

Standard input: {group: token}; then, once a line, the name of a phase to be measured from now on
("-": nothing is). At its end every sample is told: {phase: {"heartbeat_ms": [...],
"rebalance_ms": [...], "failed": n}}. Consumers are left out: what is measured is the dashboard.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from assignment import wire
from assignment.scripts import agent_side
from assignment.scripts.agent_side import Granted
from assignment.types import NO_EPOCH, Claim, Epoch, Held, HeldState, Partition, TargetRow
from assignment.wire import GroupKeys
from dashboard.evaluation.beside.made import PARTITIONS
from dashboard.evaluation.beside.speaking import NoAnswer, Store, Web, every

HEARTBEAT_S = 1.5  # half of the default: more to measure
LEASE_MS, RENEW_S = 10_000, 3.3
REBALANCE_EVERY_S = 1.0  # of any of the groups, in their turn
SETTLED_S = 30.0  # counts as so long when it takes longer
RETRY_S = 0.02
SECRET = "0123456789abcdef"


@dataclass(slots=True)
class Samples:
    phase: str = "-"
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, began_s: float, phase: str) -> None:
        """What began and ended within one phase counts."""
        if phase == self.phase != "-":
            self._of(phase)[name].append(round((time.perf_counter() - began_s) * 1e3, 3))

    def fail(self, phase: str) -> None:
        if phase == self.phase != "-":
            self._of(phase)["failed"] += 1

    def _of(self, phase: str) -> dict[str, Any]:
        return self.found.setdefault(phase, {"heartbeat_ms": [], "rebalance_ms": [], "failed": 0})


@dataclass(slots=True, kw_only=True)
class Member:
    name: str
    group: "Group"
    web: Web
    sequence: int = 0
    held: dict[Partition, int] = field(default_factory=dict)
    target: TargetRow = field(default_factory=lambda: TargetRow(target_epoch=0))
    heard: Epoch = NO_EPOCH  # incarnation and group_epoch of the last reply
    is_in: bool = False
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)  # one message at a time

    async def join(self) -> None:
        body = {"member": self.name, "secret": SECRET, "host": "honest", "version": "1"}
        reply = await self._said("join", body)
        self.is_in, self.held, self.target = True, {}, TargetRow(target_epoch=0)
        self.group.mode_epoch = reply["mode_epoch"]

    async def leave(self) -> None:
        self.is_in = False
        await self.group.release(self, set(self.held))
        await self._said("leave", {"member": self.name, "secret": SECRET})

    async def beat(self) -> None:
        """A complete report; what the reply says is followed by `follow`. Raises NoAnswer."""
        if not self.is_in:
            return
        async with self.busy:
            self.sequence += 1
            body = wire.Heartbeat(
                member=self.name,
                secret=SECRET,
                sequence=self.sequence,
                report=self.sequence,
                complete=True,
                owned={str(p): f"{fence} {HeldState.RUNNING}" for p, fence in self.held.items()},
                able=True,
                consumer=wire.ConsumerHealth(state="ready"),
                incarnation=self.heard.incarnation,
                mode_epoch=self.group.mode_epoch,
                settings_epoch=1,
                target_incarnation=self.target.incarnation,
                target_epoch=self.target.target_epoch,
            )
            reply = await self._said("heartbeat", msgspec.to_builtins(body))
            if reply["status"] == wire.Status.FENCED:
                self.group.samples.fail(self.group.samples.phase)
                await self.join()
                return
            self.heard = Epoch(reply["incarnation"], reply["group_epoch"])
            if reply.get("target") is not None:
                self.target = wire.read_target(reply["target"])

    async def _said(self, verb: str, body: Any) -> Any:
        """Raises NoAnswer for whatever is not a reply."""
        samples, began_s = self.group.samples, time.perf_counter()
        phase = samples.phase
        try:
            status, answer = await self.web.post(verb, json.dumps(body).encode())
        except NoAnswer:
            samples.fail(phase)
            raise
        if status != 200:
            samples.fail(phase)
            raise NoAnswer(f"{verb}: {status} {answer[:200]!r}")
        if verb == "heartbeat":
            samples.add("heartbeat_ms", began_s, phase)
        return json.loads(answer)


@dataclass(slots=True, kw_only=True)
class Group:
    """Two members that stay and one that comes and goes."""

    name: str
    store: Store
    samples: Samples
    members: list[Member] = field(default_factory=list)
    mode_epoch: int = 1
    hint: str = "0-0"
    at_work: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def present(self) -> list[Member]:
        return [member for member in self.members if member.is_in]

    def is_settled(self, epoch: int) -> bool:
        """Whether a target of that group_epoch or a later one is followed by all."""
        here = self.present
        held = [p for member in here for p in member.held]
        fair = all(member.held.keys() == member.target.active for member in here)
        is_new = all(member.target.target_epoch >= epoch for member in here)
        return fair and is_new and len(set(held)) == len(held) == PARTITIONS

    async def begin(self) -> None:
        for member in self.members[:2]:
            await member.join()
            await member.beat()
        await self.settle()

    async def rebalance(self) -> None:
        """The third one comes or goes: how long until all partitions are in other hands."""
        third, samples = self.members[2], self.samples
        if self.at_work.locked():
            return
        async with self.at_work:
            phase, began_s = samples.phase, time.perf_counter()
            try:
                if third.is_in:
                    await third.leave()
                else:
                    await third.join()
                    await third.beat()
                await self.settle()
            except NoAnswer:
                samples.fail(phase)
                raise
            samples.add("rebalance_ms", began_s, phase)

    async def settle(self) -> None:
        """Raises NoAnswer when it takes too long."""
        until_s = time.monotonic() + SETTLED_S
        await self.present[0].beat()
        epoch = max(member.heard.number for member in self.present)
        while not self.is_settled(epoch):
            if time.monotonic() > until_s:
                raise NoAnswer(f"group {self.name} was not settled")
            for member in self.present:
                if member.target.target_epoch < epoch:
                    await self._wait_for_target()
                    await member.beat()
                await self.follow(member)
            await asyncio.sleep(RETRY_S)

    async def _wait_for_target(self) -> None:
        """As agents do, by the group's hints; within a second."""
        control = GroupKeys(self.name).control
        found = await self.store.ask("XREVRANGE", control, "+", "-", "COUNT", 1)
        last = found[0][0].decode() if found else "0-0"
        if last == self.hint:
            await self.store.ask("XREAD", "BLOCK", 200, "STREAMS", control, last)
        self.hint = last

    async def follow(self, member: Member) -> None:
        await self.release(member, member.held.keys() - member.target.active)
        if missing := member.target.active - member.held.keys():
            call = agent_side.acquire(
                member.name, LEASE_MS, self.mode_epoch, member.heard.incarnation, missing
            )
            answer = await self.store.run(call, self.name)
            granted = answer if isinstance(answer, tuple) else ()
            member.held |= {a.partition: a.fence for a in granted if isinstance(a, Granted)}

    async def release(self, member: Member, lost: set[Partition]) -> None:
        if lost:
            held = {p: Held(fence=member.held[p], state=HeldState.RESTORING) for p in lost}
            await self.store.run(agent_side.release(member.name, held), self.name)
            for partition in lost:
                del member.held[partition]

    async def renew(self) -> None:
        for member in self.present:
            claims = [Claim(*one) for one in member.held.items()]
            await self.store.run(agent_side.renew(member.name, LEASE_MS, claims), self.name)


async def main() -> None:
    web, redis = map(int, sys.argv[1:3])
    samples, dice = Samples(), Random(1)
    tokens: dict[str, str] = json.loads(sys.stdin.readline())
    groups = [_group(name, token, samples, web, redis) for name, token in tokens.items()]
    for group in groups:
        await _begun(group)
    print("ready", flush=True)
    tasks = [asyncio.create_task(work) for group in groups for work in _paces(group, dice)]
    tasks.append(asyncio.create_task(_rebalances(groups)))
    while line := await asyncio.to_thread(sys.stdin.readline):
        samples.phase = line.strip()
    for task in tasks:
        task.cancel()
    print(json.dumps(samples.found), flush=True)


def _group(name: str, token: str, samples: Samples, web: int, redis: int) -> Group:
    group = Group(name=name, store=Store(redis, token=token), samples=samples)
    for number in range(3):
        line = Web(web, group=name, token=token)
        group.members.append(Member(name=f"{name}-{number}", group=group, web=line))
    return group


async def _begun(group: Group) -> None:
    """Its first tick may be to come."""
    until_s = time.monotonic() + SETTLED_S
    while True:
        try:
            await group.begin()
        except NoAnswer:
            if time.monotonic() > until_s:
                raise
            await asyncio.sleep(1)
        else:
            return


def _paces(group: Group, dice: Random) -> Iterator[Any]:
    for member in group.members:
        yield every(HEARTBEAT_S, member.beat, dice.random() * HEARTBEAT_S)
    yield every(RENEW_S, group.renew, dice.random() * RENEW_S)


async def _rebalances(groups: list[Group]) -> None:
    waiting = set[asyncio.Task[None]]()
    while True:
        for group in groups:
            await asyncio.sleep(REBALANCE_EVERY_S)
            task = asyncio.create_task(_try(group))
            waiting.add(task)
            task.add_done_callback(waiting.discard)


async def _try(group: Group) -> None:
    try:
        await group.rebalance()
    except NoAnswer as error:
        print(f"{group.name}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    asyncio.run(main())
