"""A running dashboard for a real browser: uvicorn, the coordinator's tick, members that follow."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvicorn
from asgiref.sync import sync_to_async

from assignment.scripts import agent_side
from assignment.types import Claim
from dashboard import coordinator
from dashboard.asgi import application
from dashboard.live.scripts import run
from dashboard.models import Group
from tests.dashboard.agents import FakeAgent, tick

STEP_S = 0.2
DEADLINE_S = 30.0
LOOK_AGAIN_S = 0.05


async def until(
    holds: Callable[[], Awaitable[Any]], what: str, deadline_s: float = DEADLINE_S
) -> Any:
    """What `holds` answered when it first was true."""
    try:
        async with asyncio.timeout(deadline_s):
            while not (answer := await holds()):
                await asyncio.sleep(LOOK_AGAIN_S)
            return answer
    except TimeoutError:
        raise AssertionError(f"not within {deadline_s} s: {what}") from None


class Stage:
    """Steps every STEP_S: the coordinator as Celery would run it, the members as agents would.
    `learns`: replicas catch up within a step; else they stay behind.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.agents: list[FakeAgent] = []
        self.learns = False

    async def join(self, name: str) -> None:
        agent = FakeAgent(self.group, name)
        await sync_to_async(agent.start)()
        self.agents.append(agent)

    async def leave(self, name: str) -> None:
        agent = next(agent for agent in self.agents if agent.member == name)
        self.agents.remove(agent)
        await sync_to_async(agent.leave)()

    async def settled(self) -> None:
        async def all_owned() -> bool:
            held = [len(agent.held) for agent in self.agents]
            return sum(held) == self.group.partitions and max(held) - min(held) <= 1

        await until(all_owned, "every partition owned, evenly")

    async def play(self) -> None:
        while True:
            await sync_to_async(self._step)()
            await asyncio.sleep(STEP_S)

    def _step(self) -> None:
        coordinator.rebalance(self.group.name, "task", "worker@stage")
        for agent in tuple(self.agents):
            agent.follow()
            if self.learns:
                agent.catch_up()
            if agent.ended:
                self.agents.remove(agent)
                continue
            claims = [Claim(p, f) for p, f in agent.held.items()]
            arguments = agent_side.renew(agent.member, self.group.values.lease_ms, claims)
            run(arguments, self.group.name)
        tick()
        coordinator.sample()


@contextlib.asynccontextmanager
async def background(work: Any) -> AsyncIterator[None]:
    """Ended with the block; what it raised is raised there."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def web() -> AsyncIterator[str]:
    """The address of a uvicorn that serves the whole ASGI application."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=5)
        )
        serving = asyncio.create_task(server.serve(sockets=[listening]))

        async def started() -> bool:
            return server.started

        await until(started, "uvicorn started")
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
