"""One process of light members: `python -m dashboard.evaluation.load.client`, asked line by line.

The first line of standard input is a Task in JSON, answered "ready" once Redis knows the tokens.
Then: `join`; `told` (a Status in JSON); `anew` (latencies and who was heard count from now on);
`kill GROUP` (one of its members, whose name is answered; "" when none is played here).
"""

import asyncio
import os
import resource
import sys
import time
import traceback
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import hiredis
import msgspec
import uvloop

from assignment.member.state import MemberState
from assignment.types import GroupSettings
from dashboard import memory
from dashboard.evaluation.beside.speaking import NoAnswer
from dashboard.evaluation.load.hints import listen, shares
from dashboard.evaluation.load.lines import RedisLine, WebLine, heads_of, raise_bug
from dashboard.evaluation.load.member import LightMember
from dashboard.evaluation.load.told import Told

LOOK_S = 0.5  # for what is overdue: an eighth of the shortest patience
READING_S = 0.05  # a turn of the loop, which reads what is there
LOGIN_S = 60.0
LOGIN_RETRY_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`number`: of this process; of `members` in all, dealt over the groups in turn, it plays every
    `processes`-th.
    """

    web_port: int
    redis_port: int
    tokens: Mapping[str, str]  # by group
    members: int
    number: int
    processes: int
    spread_s: float  # over which the joins are spread
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """`settled`: members that hold what their target gives them; `held`: partitions in all."""

    members: int
    joined: int
    settled: int
    held: int
    heard: int
    cpu_s: float
    count: Mapping[str, int]
    why: Mapping[str, str]
    latencies: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Crowd:
    task: Task
    members: list[LightMember]
    told: Told
    dice: Random
    ears: list[RedisLine] = field(default_factory=list)

    @classmethod
    def of(cls, task: Task) -> "Crowd":
        told, dice, stores = Told(), Random(f"{task.seed} {task.number}"), dict[str, RedisLine]()
        crowd = cls(task, [], told, dice)
        heads = {group: heads_of(group, token) for group, token in task.tokens.items()}
        groups, loop = list(task.tokens), asyncio.get_running_loop()
        for n in range(task.number, task.members, task.processes):
            group = groups[n % len(groups)]
            store = stores.setdefault(
                group, RedisLine(port=task.redis_port, group=group, token=task.tokens[group])
            )
            settings = GroupSettings(stream=group, partitions=1)  # until it is told
            crowd.members.append(
                LightMember(
                    name=f"{group}-{n}",
                    web=WebLine(port=task.web_port, heads=heads[group]),
                    store=store,
                    told=told,
                    dice=dice,
                    state=MemberState(settings=settings),
                    loop=loop,
                )
            )
        return crowd

    @property
    def stores(self) -> Sequence[RedisLine]:
        return list({id(member.store): member.store for member in self.members}.values())

    async def log_in(self) -> None:
        """Raises NoAnswer."""
        for store in self.stores:
            until_s = time.monotonic() + LOGIN_S
            while True:
                try:
                    await store.ask(("PING",))
                    break
                except (NoAnswer, hiredis.ReplyError):
                    if time.monotonic() > until_s:
                        raise
                    await asyncio.sleep(LOGIN_RETRY_S)

    def join(self) -> None:
        for member in self.members:
            member.loop.call_later(self.dice.random() * self.task.spread_s, member.join)

    def listening(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Each on a line of its own, which is looked at with the others."""
        for store in self.stores:
            of_group = [member for member in self.members if member.store is store]
            for members in shares(of_group):
                ear = RedisLine(port=store.port, group=store.group, token=store.token)
                self.ears.append(ear)
                yield listen(ear, members)

    async def look(self) -> None:
        """For ever: ends what waits too long for an answer. What came until then is read first: it
        is this process that was late, for all of its members, where agents have one each.
        """
        loop, lines = asyncio.get_running_loop(), [*self.stores, *self.ears]
        while True:
            await asyncio.sleep(LOOK_S)
            now_s = loop.time()
            await asyncio.sleep(READING_S)
            for member in self.members:
                member.web.end_overdue(now_s)
            for line in lines:
                line.end_overdue(now_s)

    def status(self) -> Status:
        alive = [member for member in self.members if not member.is_killed]
        return Status(
            members=len(alive),
            joined=sum(member.state.joined for member in alive),
            settled=sum(member.is_settled for member in alive),
            held=sum(len(member.state.held) for member in alive),
            heard=len(self.told.heard_since),
            cpu_s=time.process_time(),
            count=self.told.count,
            why=self.told.why,
            latencies={str(step): n for step, n in self.told.latencies.counts.items()},
        )

    def anew(self) -> None:
        self.told.latencies.counts.clear()
        self.told.heard_since.clear()

    def kill(self, group: str) -> str:
        """One that holds something."""
        for member in self.members:
            if member.store.group == group and member.state.held and not member.is_killed:
                member.kill()
                return member.name
        return ""

    def answer(self, line: str) -> Any:
        verb, _, argument = line.strip().partition(" ")
        match verb:
            case "join":
                self.join()
            case "anew":
                self.anew()
            case "told":
                return self.status()
            case "kill":
                return self.kill(argument)
        return verb


async def play() -> None:
    asyncio.get_running_loop().set_exception_handler(end)
    task = await asyncio.to_thread(sys.stdin.readline)
    crowd = Crowd.of(msgspec.json.decode(task, type=Task))
    await crowd.log_in()
    memory.settle()
    tasks = [asyncio.create_task(one) for one in (*crowd.listening(), crowd.look())]
    for one in tasks:
        one.add_done_callback(raise_bug)
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        say(crowd.answer(line))
    for one in tasks:
        one.cancel()


def end(_: Any, context: dict[str, Any]) -> None:
    """A bug in a member ends all: what is measured with it would be nothing."""
    print(context["message"], file=sys.stderr)
    traceback.print_exception(context.get("exception"))
    sys.stderr.flush()
    os._exit(1)  # a thread waits for standard input, and would be waited for


def say(answer: Any) -> None:
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(play())


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    main()
