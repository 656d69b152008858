"""The seven faults of fault_check: each is caused, waited out, and noted as a Window.

A step starts when every partition is owned and events have flowed for a while, so that the time
before it can be compared with the time during it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import psutil

from dashboard.demo import processes
from dashboard.demo.demo import Demo
from dashboard.demo.options import LIGHT, LIGHT_MIB
from dashboard.demo.tree import Part, Process, TreeFailed
from dashboard.evaluation.judge import late, not_zero
from dashboard.evaluation.steps import Window
from dashboard.evaluation.system import (
    FLIGHTS_IN_ALL,
    RECOVER_S,
    TIMINGS,
    Run,
    now_ms,
    own_run,
    speed_for,
)
from dashboard.management.arguments import say

LEASE_S = TIMINGS.lease_ms / 1000
TAKEOVER_MS = TIMINGS.lease_ms + 2_000
RETURN_MS = 30_000  # web, worker and beat start, and history catches up, on two busy cores
QUIET_S = LEASE_S + 2
FLOW_S = 1_800.0  # all flights of the year take so long, which is longer than the steps
WARM_BATCHES = 8
AWAY_S = 60.0
# The only steps that may raise the incarnation: the group's data are another server's then.
MAY_LOSE_WRITES = ("redis_restart", "group_failover", "group_slot", "group_slot_by_key")
HURT_NO_OWNER = ("term", "dashboard_away", "stream_failover", "stream_slot", *MAY_LOSE_WRITES)
SUSPEND_TRIES = 3  # a consumer that had no batch in hand when it was stopped proves nothing


@dataclass(slots=True)
class Faults:
    run: Run
    windows: list[Window] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    turns: int = 0

    def kill(self) -> None:
        victim = self.next_victim()
        with self.step("kill", TAKEOVER_MS, victim) as note:
            self.run.kill(victim)
            self.wait_owned_without(note.victims)

    def kill_agent(self) -> None:
        """Its consumer must have ended itself, all of it, one lease and 2 s later."""
        victim = self.next_victim()
        with self.step("kill_agent", TAKEOVER_MS, victim) as note:
            agent, *consumer = victim.family
            processes.kill([agent])
            self.run.pass_time(LEASE_S + 2)
            orphans = [process.pid for process in consumer if lives(process)]
            if orphans:
                self.problems.append(f"kill_agent: {len(orphans)} processes outlived their agent")
            self.wait_owned_without(note.victims)

    def kill_consumer(self) -> None:
        victim = self.next_victim()
        with self.step("kill_consumer", TAKEOVER_MS, victim) as note:
            processes.kill(victim.family[1:])
            self.wait_owned_without(note.victims)

    def term(self) -> None:
        victim = self.next_victim()
        with self.step("term", TIMINGS.grace_ms, victim) as note:
            agent = victim.family[0]
            agent.terminate()
            self.run.wait(lambda: not lives(agent), RECOVER_S, "the agent did not end")
            if (took := now_ms() - note.began_ms) > TIMINGS.grace_ms:
                self.problems.append(f"term: the agent ended after {took} ms")
            self.wait_owned_without(note.victims)

    def suspend(self) -> None:
        """Agent and consumer stop for two leases; their batch in hand must be refused."""
        for attempt in range(SUSPEND_TRIES):
            refused = self.refused()
            victim = self.next_victim()
            with self.step("suspend", TAKEOVER_MS, victim) as note:
                family = victim.family
                processes.each(family, psutil.Process.suspend)
                try:
                    self.run.pass_time(2 * LEASE_S)
                    self.wait_owned_without(note.victims)
                finally:
                    processes.each(reversed(family), psutil.Process.resume)
                self.run.pass_time(LEASE_S)
            if self.refused() > refused:
                return
            if attempt + 1 < SUSPEND_TRIES:
                self.run.say("no batch was in hand: suspending another one")
                self.windows.pop()

    def dashboard_away(self) -> None:
        """Web, worker and beat stop for a minute; recovered with a complete history."""
        tree = self.run.demo.tree
        parts = [part for part in tree.parts if part.name in ("web", "worker", "beat")]
        with self.step("dashboard_away", RETURN_MS, None) as note:
            for part in reversed(parts):
                tree.take_out(part)
            self.run.pass_time(AWAY_S)
            note.over_ms = now_ms()
            for part in parts:
                tree.start(part)
            self.run.wait(self.history_is_complete, RECOVER_S, "history did not catch up")
            note.recovered_ms = now_ms() - note.over_ms

    def redis_restart(self) -> None:
        """Recovered: the group is read from the new server, with every partition in its hands.

        It may raise the incarnation, of which each holder hears within a lease.
        """
        demo = self.run.demo
        if demo.redis is None:
            raise TreeFailed("redis_restart needs the embedded Redis: unset REDIS_URL")
        with self.step("redis_restart", TAKEOVER_MS, None) as note:
            redis: Part = demo.redis
            demo.tree.take_out(redis)
            demo.tree.start(redis)
            demo.status_file.unlink(missing_ok=True)
            self.run.wait(demo.is_settled, RECOVER_S, "the group did not return")
            note.recovered_ms = now_ms() - note.began_ms
            self.run.pass_time(LEASE_S)
            note.over_ms = now_ms()

    @contextmanager
    def step(self, name: str, bound_ms: int, victim: Process | None) -> Iterator["Note"]:
        """Quiet time, the fault, then until all consumers are back."""
        self.run.wait_at_work(WARM_BATCHES)
        before_ms = now_ms()
        self.run.pass_time(QUIET_S)
        victims = (self.run.member_of(victim),) if victim else ()
        note = Note(began_ms=now_ms(), victims=victims)
        self.run.say(f"step {name}: {', '.join(victims) or 'nobody'} is hurt")
        with self.run.demo.tree.not_restarting(victim) if victim else nullcontext():
            yield note
        self.run.demo.wait_settled()
        self.windows.append(
            Window(
                name=name,
                before_ms=before_ms,
                began_ms=note.began_ms,
                ended_ms=now_ms(),
                bound_ms=bound_ms,
                victims=victims,
                recovered_ms=note.recovered_ms,
                over_ms=note.over_ms,
            )
        )

    def next_victim(self) -> Process:
        """One after the other, so that none is restarted more often than the tree allows."""
        consumers = self.run.demo.consumers
        self.turns += 1
        return consumers[self.turns % len(consumers)]

    def wait_owned_without(self, victims: tuple[str, ...]) -> None:
        def all_owned() -> bool:
            status = self.run.demo.status()
            others = {m: s for m, s in status["members"].items() if m not in victims}
            owned = sum(len(member["owned"]) for member in others.values())
            return bool(owned == status["partitions"] > 0)

        self.run.wait(all_owned, RECOVER_S, "the partitions were not owned again")

    def refused(self) -> int:
        return int(self.run.demo.status().get("refused_commits", 0))

    def history_is_complete(self) -> bool:
        return bool(self.run.demo.status().get("history_behind") == 0)


@dataclass(frozen=True, slots=True)
class Kind:
    """Of a run: which system, struck how. `options`: of its demo."""

    make: type[Demo]
    faults: type[Faults]
    steps: Mapping[str, Callable[[Any], None]]
    options: Mapping[str, Any] = field(default_factory=dict)


def check(
    kind: Kind, names: Sequence[str], seed: int, *, light: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The steps' numbers, and what is wrong. `light`: with consumers without Spark. Raises Refused,
    TreeFailed, Stopped.
    """
    options = {"speed": speed_for(FLIGHTS_IN_ALL, FLOW_S), **kind.options}
    if light:
        options |= {"pipeline": LIGHT, "consumer_mib": LIGHT_MIB}
    with own_run(say, seed, kind.make, **options) as run:
        run.start()
        faults = kind.faults(run)
        for name in names:
            kind.steps[name](faults)
        run.wait_processed(run.end_flow())
        run.demo.wait_settled()
        found = run.evaluate_times("--steps", faults.windows)
    problems = [*faults.problems, *found["faults"]]
    if found["overlap_ms"]:
        problems.append(f"two members owned a partition: overlap_ms is {found['overlap_ms']}")
    problems += [text for step in found["steps"] for text in faults_of(step)]
    return {"steps": found["steps"]}, problems


STEPS: dict[str, Callable[[Faults], None]] = {
    step.__name__: step
    for step in (
        Faults.kill,
        Faults.kill_agent,
        Faults.kill_consumer,
        Faults.term,
        Faults.suspend,
        Faults.dashboard_away,
        Faults.redis_restart,
    )
}
ON_ONE = Kind(Demo, Faults, STEPS)


@dataclass(slots=True)
class Note:
    """What a step finds out while it runs."""

    began_ms: int
    victims: tuple[str, ...]
    recovered_ms: int | None = None
    over_ms: int | None = None


def lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def faults_of(step: Mapping[str, Any]) -> list[str]:
    """What is wrong with a step's numbers; empty when all is right.

    A raised incarnation gives every partition a new fence, but no new owner (coordination.md 8).
    """
    wrong = late(step["recovered_ms"], step["bound_ms"])
    gap = step["others_commit_gap_during_ms"]
    if gap >= TIMINGS.lease_ms:
        wrong.append(f"others_commit_gap_during_ms {gap} is not below the lease")
    wrong += not_zero(step, "others_owners_changed", "lost", "doubled")
    if step["incarnation_raised"] and step["name"] not in MAY_LOSE_WRITES:
        wrong.append("the incarnation was raised")
    if not step["incarnation_raised"]:
        wrong += not_zero(step, "others_fences_changed")
    if step["name"] in HURT_NO_OWNER:
        wrong += not_zero(step, "expired_leases")
    if step["name"] == "suspend" and step["refused_commits"] == 0:
        wrong.append("no commit was refused: the run is void")
    return [f"{step['name']}: {text}" for text in wrong]
