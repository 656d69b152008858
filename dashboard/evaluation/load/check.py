"""A system of its own under many light members: what they wait for, and what it costs.

First they join, until every lock is its target's and nothing is planned any more; then a window is
measured. Afterwards, where it is asked for, a member and the web process are killed under them.
"""

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import psutil

from dashboard.demo import processes
from dashboard.demo.parts import kind_of
from dashboard.demo.tree import TreeFailed
from dashboard.evaluation.beside.programs import (
    cpu_of,
    cpu_s,
    family_of,
    line_of,
    made_groups,
    program,
    tell,
)
from dashboard.evaluation.load import client, costs, hand_over
from dashboard.evaluation.load.aims import Sizes, missed
from dashboard.evaluation.load.client import Status, Task
from dashboard.evaluation.load.told import Latencies
from dashboard.evaluation.load.watching import Watch
from dashboard.evaluation.redis_servers import Postgres
from dashboard.evaluation.system import TIMINGS, Run, own_run
from dashboard.management.arguments import say

Found = dict[str, Any]
SPREAD_S = TIMINGS.heartbeat_ms / 1e3  # of the joins: as if all had begun at any moment of a beat
STILL_S = 3.0  # without another target it is steady
STEADY_WITHIN_S = 300.0  # ten times the aim
KEPT_WITHIN_S = 180.0  # history of the joining
QUIET_S = 5.0  # after many groups were made
CONFIGURED_S = 120.0
BACK_S = 120.0  # of a web process that was killed, until all were answered again
REPLACED_WITHIN_S = 60.0
SESSION_S = TIMINGS.session_timeout_ms / 1e3
LOOK_S = 0.5
TELL_S = 5.0
DATABASE = "database"  # of SQLite web and worker pay themselves


@dataclass(slots=True)
class Crowd:
    """All client processes."""

    run: Run
    programs: Sequence[Any]

    def ask(self, line: str) -> list[Any]:
        for one in self.programs:
            tell(one, line)
        return [msgspec.json.decode(line_of(self.run, one)) for one in self.programs]

    def status(self) -> Status:
        found = [msgspec.convert(one, Status) for one in self.ask("told")]
        latencies = Latencies()
        for one in found:
            latencies.merge(Latencies(one.latencies))
        numbers = ("members", "joined", "settled", "held", "heard", "cpu_s")
        summed = {name: sum(getattr(one, name) for one in found) for name in numbers}
        count = sum((Counter(one.count) for one in found), Counter[str]())
        why = {kind: text for one in found for kind, text in one.why.items()}
        shown = {str(step): n for step, n in latencies.counts.items()}
        return Status(**summed, count=count, why=why, latencies=shown)


@dataclass(slots=True)
class Scene:
    """`pids`: of the system's parts as the run began; one that changed was restarted."""

    run: Run
    asked: Sizes
    watch: Watch
    crowd: Crowd
    postgres: Postgres | None = None
    found: Found = field(default_factory=dict)
    costs: dict[str, Any] = field(default_factory=dict)  # moment -> what was taken until then
    _told_s: float = 0.0

    def say_now_and_then(self, text: Callable[[], str]) -> None:
        if time.monotonic() - self._told_s >= TELL_S:
            self._told_s = time.monotonic()
            say(f"{self._told_s - self.found['began_s']:6.1f} s  {text()}")

    def read_costs(self, moment: str, after: str = "") -> None:
        """`after`: a reading that this one is whole periods behind."""
        if after:
            past_s = time.monotonic() - self.costs[after]["began_s"]
            self.run.pass_time(-past_s % costs.PERIOD_S)
        self.costs[moment] = costs.read(self.run, self.watch).as_values()

    # --- until it is steady

    def join(self) -> None:
        self.found["began_s"] = time.monotonic()
        self.crowd.ask("join")
        self.found["join_steady_s"] = self._steady()
        self.found["differing"] = self.watch.differing(self.asked.by_group)

    def _steady(self) -> float | None:
        """Seconds until then; None: it never was."""
        still: tuple[Any, float] | None = None
        began_s: float = self.found["began_s"]
        while (now_s := time.monotonic()) - began_s < STEADY_WITHIN_S:
            status, epochs = self.crowd.status(), self.watch.epochs()
            self.say_now_and_then(lambda status=status: shown(status))  # type: ignore[misc]
            if not self._is_settled(status, epochs):
                still = None
            elif still is None or still[0] != epochs:
                still = epochs, now_s
            elif now_s - still[1] >= STILL_S:
                return round(now_s - began_s, 1)
            self.run.pass_time(LOOK_S)
        return None

    def _is_settled(self, status: Status, epochs: Sequence[tuple[int, int]]) -> bool:
        members, partitions = self.asked.members, self.asked.partitions
        is_held = status.joined == status.settled == members and status.held == partitions
        return is_held and all(group == target for group, target in epochs)

    def wait_for_history(self) -> None:
        """What joining left to do is no part of what beating costs. Groups wish for their history
        one after the other, and between two of them nobody is at it.
        """
        since_s: float | None = None

        def is_kept() -> bool:
            nonlocal since_s
            if self.watch.is_at_work():
                since_s = None
                return False
            since_s = since_s or time.monotonic()
            return time.monotonic() - since_s >= STILL_S

        found = self.run.happens(is_kept, KEPT_WITHIN_S) and since_s
        self.found["history_kept_s"] = round(found - self.found["began_s"], 1) if found else None

    # --- the window

    def measure(self) -> None:
        pids = self._pids()
        self.crowd.ask("anew")
        before, machine = self.crowd.status(), machine_s()
        cpu_before, began_s = self._cpu_s(), time.monotonic()
        self.watch.anew()
        self.run.pass_time(self.asked.seconds)
        seconds, cpu, busy = time.monotonic() - began_s, self._cpu_s(), machine_s() - machine
        gap_ms, after = self.watch.gaps.longest_ms, self.crowd.status()
        if self._pids() != pids:
            raise TreeFailed("a part of the system was restarted while it was measured")
        spent = {name: cpu[name] - cpu_before[name] for name in cpu}
        spent["client"] = after.cpu_s - before.cpu_s
        beats = after.count.get("beats", 0) - before.count.get("beats", 0)
        latencies, others = Latencies(after.latencies), busy - sum(spent.values())
        self.found |= {
            "beats": after.count.get("beats", 0),
            "timeouts": after.count.get("timeouts", 0),
            "errors": after.count.get("errors", 0),
            "join_waits": after.count.get("join_waits", 0),
            "web_us_per_beat": round(spent["web"] / beats * 1e6, 1) if beats else None,
            "p50_ms": latencies.share_ms(50),
            "p99_ms": latencies.share_ms(99),
            "cpu_cores": {name: round(one / seconds, 3) for name, one in spent.items()},
            "others_cores": round(max(0.0, others) / seconds, 3),
            "tick_gap_max_ms": gap_ms,
            "moves": max(0, after.count.get("grants", 0) - after.held),
        }
        for kind, text in after.why.items():
            say(f"the first of {kind}: {text}")

    def _cpu_s(self) -> dict[str, float]:
        """By kind of process, however many there are of it."""
        of_database = 0.0 if self.postgres is None else cpu_of(family_of(self.postgres.pid))
        return {**costs.summed(cpu_s(self.run)), DATABASE: of_database}

    def _pids(self) -> list[int | None]:
        return [getattr(part, "pid", None) for part in self.run.demo.tree.parts]

    # --- what is killed

    def kill_member(self) -> float | None:
        """Seconds until others have all of the last group; None: they never had."""
        group = list(self.asked.by_group)[-1]
        victim = next((name for name in self.crowd.ask(f"kill {group}") if name), "")
        if not victim:
            raise TreeFailed(f"nobody in group {group} holds a partition")
        say(f"{victim} was killed")
        began_s, partitions = time.monotonic(), self.asked.by_group[group]

        def is_replaced() -> bool:
            locks = self.watch.locks(group, partitions)
            return len(locks) == partitions and victim not in {m for m, _ in locks.values()}

        if not self.run.happens(is_replaced, REPLACED_WITHIN_S):
            return None
        return round(time.monotonic() - began_s, 1)

    def restart_web(self) -> int:
        """How many partitions changed hands, or were granted anew, by it."""
        alive = self.asked.members - self.asked.kill_member
        web = next(part for part in self.run.demo.tree.parts if kind_of(part.name) == "web")
        before, granted = self.watch.all_locks(self.asked.by_group), self._grants()
        say("web: killed")
        processes.kill(web.family)  # type: ignore[attr-defined]
        self.crowd.ask("anew")

        def are_heard() -> bool:
            status = self.crowd.status()
            self.say_now_and_then(lambda: f"{status.heard} of {alive} heard again; {shown(status)}")
            return status.heard == alive

        self.run.wait(are_heard, BACK_S, "not every member was heard again")
        self.run.pass_time(SESSION_S + STILL_S)
        after = self.watch.all_locks(self.asked.by_group)
        changed = sum(after.get(partition) != lock for partition, lock in before.items())
        return max(changed, self._grants() - granted)

    def _grants(self) -> int:
        return self.crowd.status().count.get("grants", 0)


def shown(status: Status) -> str:
    """For whoever waits."""
    facts = f"{status.joined} of {status.members} joined, {status.settled} settled"
    counts = ", ".join(f"{name} {count}" for name, count in sorted(status.count.items()))
    return f"{facts}, {status.held} partitions held; {counts}"


def check(asked: Sizes, seed: int) -> tuple[Found, list[str]]:
    """What the command answers, and the aims that were missed. Raises TreeFailed, Stopped."""
    with _database(asked) as postgres, _system(asked, seed, postgres) as run:
        run.demo.start_dashboard()
        if run.demo.redis is None:
            raise TreeFailed("load_check needs the embedded Redis: unset REDIS_URL")
        made = made_groups(run, {**asked.by_group, **hand_over.partitions_of(asked)})
        tokens = {group: made[group] for group in asked.by_group}
        with (
            Watch(run.demo.redis.server.url, list(tokens)) as watch,
            crowd_of(run, asked, tokens, seed) as crowd,
        ):
            scene = Scene(run, asked, watch, crowd, postgres)
            found = {**_run(scene), **hand_over.NOTHING}
            if asked.hand_over:
                token = {hand_over.GROUP: made[hand_over.GROUP]}
                found |= _hand_over(scene, token, seed)
    return found, missed(found, asked, SESSION_S)


@contextmanager
def _database(asked: Sizes) -> Iterator[Postgres | None]:
    """None: SQLite, or what the environment names."""
    postgres = Postgres() if asked.postgres else None
    try:
        yield postgres
    finally:
        if postgres is not None:
            postgres.close()


def _system(asked: Sizes, seed: int, postgres: Postgres | None) -> AbstractContextManager[Run]:
    url = postgres.url if postgres is not None else ""
    return own_run(say, seed, demo=False, database_url=url, webs=asked.webs, workers=asked.workers)


def _run(scene: Scene) -> Found:
    asked, run = scene.asked, scene.run
    run.wait(
        lambda: scene.watch.configured() == asked.groups, CONFIGURED_S, "a group is not in Redis"
    )
    if asked.members:
        scene.read_costs("quiet")
        scene.join()
        scene.wait_for_history()
    else:
        run.wait(
            lambda: scene.watch.resting() == asked.groups, CONFIGURED_S, "a group does not rest"
        )
        run.pass_time(QUIET_S)
    scene.read_costs("steady")
    scene.measure()
    scene.read_costs("end", after="steady")
    unknown = ("join_steady_s", "history_kept_s", "differing", "replaced_s")
    nothing: Found = dict.fromkeys(unknown)
    found = {**nothing, **scene.found, "restarted_web_moves": None, "costs": scene.costs}
    found["rebalances"] = scene.costs["end"]["rebalances"]
    if asked.kill_member:
        found["replaced_s"] = scene.kill_member()
    if asked.restart_web:
        found["restarted_web_moves"] = scene.restart_web()
    sizes = {name: getattr(asked, name) for name in SIZES}
    return {**sizes, **{name: found[name] for name in ORDER}}


def _hand_over(scene: Scene, token: Mapping[str, str], seed: int) -> Found:
    sizes, spread_s = hand_over.sizes_of(scene.asked), hand_over.SPREAD_S
    with crowd_of(scene.run, sizes, token, seed, spread_s) as large:
        givers, takers = (Crowd(scene.run, [one]) for one in large.programs)
        return hand_over.HandOver(scene, givers, takers).run()


SIZES = ("members", "groups", "partitions", "webs", "workers", "postgres", "hand_over")
ORDER = (
    "beats", "timeouts", "errors", "web_us_per_beat", "p50_ms", "p99_ms", "cpu_cores",
    "tick_gap_max_ms", "join_steady_s", "moves", "rebalances", "restarted_web_moves",
    "join_waits", "history_kept_s", "differing", "replaced_s", "others_cores", "costs",
)  # fmt: skip


@contextmanager
def crowd_of(
    run: Run, asked: Sizes, tokens: Mapping[str, str], seed: int, spread_s: float = SPREAD_S
) -> Iterator[Crowd]:
    assert run.demo.redis is not None
    programs = []
    with ExitStack() as stack:
        for number in range(asked.processes if asked.members else 0):
            task = Task(
                web_port=run.demo.options.port,
                redis_port=run.demo.redis.server.port or 0,
                tokens=tokens,
                members=asked.members,
                number=number,
                processes=asked.processes,
                spread_s=spread_s,
                seed=seed,
            )
            programs.append(stack.enter_context(program(client.__name__)))
            tell(programs[-1], msgspec.json.encode(task).decode())
        for one in programs:
            line_of(run, one)
        yield Crowd(run, programs)


def machine_s() -> float:
    """What every process of this machine has had of its cores."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def files_limit() -> int:
    """That a process of the client may open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if hard == resource.RLIM_INFINITY else hard
