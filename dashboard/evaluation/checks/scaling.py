"""The eight steps of scaling_check: the group is changed, waited out, and noted as a Change.

Each step can be run alone: before it the group is brought to as many consumers as it needs. With
learners members are told to leave by scale_down, as people do it; without (`stateful` off) a
scale-down has nothing to wait for and is refused, so the same members get SIGTERM instead.
"""

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dashboard.demo import processes
from dashboard.demo.options import GROUP
from dashboard.demo.tree import Process, TreeFailed
from dashboard.evaluation.figures import Change, name_of
from dashboard.evaluation.system import Run, load, now_ms

CONSUMERS = 3
EVENTS_PER_SECOND = 300.0
QUIET_S = 10.0  # what the change is compared with
WARM_BATCHES = 20
SEED_S = 900.0  # every key is processed once within it
CONVERGE_S = 240.0  # deadline of a change, far above what one takes
UNDER_WAY_S = 2.0  # how long a scale-down may take until it is seen; then it is hurt all the same
AWAY_S = 5.0  # of web or Celery in the middle of a drain
LIMIT_MS = 200  # over before much can have changed hands; 0 where learners are quicker
TRIES = 3  # of a step whose scale-down was over before it could be hurt


OUTCOMES = {"kill_leaving": "died", "timeout": "forced"}  # of who was told; else clean


class OverTooSoon(Exception):
    """The scale-down ended before it was hurt: the step has to be run again."""


@dataclass(slots=True, kw_only=True)
class Note:
    """What a step finds out while it runs. `leave`: consumers that must be gone in the end."""

    quiet_ms: int = 0
    stirred_ms: int = 0
    began_ms: int = 0
    leave: list[Process] = field(default_factory=list)
    killed: list[Process] = field(default_factory=list)
    told: list[str] = field(default_factory=list)  # member ids
    settled_ms: int = 0  # 0: not
    change: Change | None = None


def keys_in_all(each: int, partitions: int) -> int:
    """So many that every partition has at least `each`: a hash spreads them by chance, and five
    standard deviations more are enough for all.
    """
    return partitions * (each + math.ceil(5 * math.sqrt(each)))


@dataclass(slots=True)
class Scaling:
    """`keys`: at least so many in each partition."""

    run: Run
    keys: int
    limit_ms: int = LIMIT_MS  # of the step timeout
    changes: list[Change] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def stateful(self) -> bool:
        return self.run.demo.options.stateful

    def start(self) -> None:
        """Everything, and every key processed once."""
        demo = self.run.demo
        keys = keys_in_all(self.keys, demo.options.partitions)
        demo.start_dashboard()
        demo.start_consumers()
        self.run.producer = load(demo.parts, GROUP, keys, EVENTS_PER_SECOND, self.run.acknowledged)
        demo.tree.start(self.run.producer)
        self.run.say(f"every one of {keys} keys is processed once")
        self.run.wait(
            lambda: int(demo.status()["processed"]) >= keys,
            SEED_S,
            f"{keys} keys were not processed",
        )

    def all(self, names: Sequence[str]) -> None:
        """The steps in that order. One that does not converge is the last."""
        for name in names:
            self.reach(self.consumers_before(name))
            self.tried(STEPS[name])
            if not self.changes[-1].converged:
                return

    def tried(self, step: "Callable[[Scaling], None]") -> None:
        """Raises TreeFailed: no scale-down took long enough to be hurt."""
        for _ in range(TRIES):
            try:
                return step(self)
            except OverTooSoon:
                self.run.say("the scale-down was over too soon")
                self.reach(CONSUMERS)
        raise TreeFailed(f"{TRIES} scale-downs were over before they could be hurt: ask for --keys")

    # --- the steps

    def add(self) -> None:
        with self.step("add") as note:
            consumer = self.run.demo.start_consumer()
            note.began_ms = self.able_since_ms(consumer)

    def drain_named(self) -> None:
        with self.step("drain_named") as note:
            self.drain(note, self.owner())

    def drain_half(self) -> None:
        with self.step("drain_half") as note:
            if self.stateful:
                self.tell(note, "--percent", "50")
            else:
                consumers = self.run.demo.consumers
                for consumer in consumers[-(len(consumers) // 2) :]:
                    self.drain(note, consumer)

    def kill_leaving(self) -> None:
        """The leaving member is killed with its consumer."""
        with self.step("kill_leaving") as note:
            victim = self.owner()
            self.drain(note, victim)
            self.under_way(note)
            self.run.kill(victim)
            note.killed.append(victim)
            if self.stateful and self.went(note) == {"clean"}:
                raise OverTooSoon  # it had left when it was struck

    def kill_learner(self) -> None:
        """A member that learns what another leaves behind is killed with its consumer."""
        with self.step("kill_learner") as note:
            victim = self.owner()
            self.drain(note, victim)
            self.under_way(note)
            learner = self.learner(victim)
            with self.run.demo.tree.not_restarting(learner):
                self.run.kill(learner)
                note.killed.append(learner)
                self.finish("kill_learner", note)

    def kill_celery(self) -> None:
        self.kill_parts("kill_celery", "worker", "beat")

    def kill_web(self) -> None:
        self.kill_parts("kill_web", "web")

    def timeout(self) -> None:
        """The limit is over before a learner has taken over: the member goes at once."""
        with self.step("timeout") as note:
            self.drain(note, self.owner(), "--timeout-ms", str(self.limit_ms))
            if self.stateful and self.went(note) == {"clean"}:
                self.limit_ms = 0  # the learners were ready sooner than a tick sees the limit
                raise OverTooSoon

    def went(self, note: Note) -> set[str]:
        """How those who were told to leave went, once they are gone."""
        self.converge(note)
        outcomes = self.run.demo.status()["outcomes"]
        return {str(outcomes.get(member_id)) for member_id in note.told}

    def kill_parts(self, name: str, *parts: str) -> None:
        """Those are killed in the middle of a drain, away for a while, and started again."""
        tree = self.run.demo.tree
        with self.step(name) as note:
            self.drain(note, self.owner())
            self.under_way(note)
            victims = [part for part in tree.parts if part.name in parts]
            with tree.not_restarting(*victims):
                for part in victims:
                    if isinstance(part, Process):
                        processes.kill(part.family)
                self.run.say(f"killed {', '.join(parts)} for {AWAY_S:.0f} s")
                self.run.pass_time(AWAY_S)

    # --- what they are made of

    @contextmanager
    def step(self, name: str) -> Iterator[Note]:
        """Quiet time, the change, then until everything is as it has to be."""
        self.run.wait_at_work(WARM_BATCHES)
        note = Note(quiet_ms=now_ms())
        self.run.pass_time(QUIET_S)
        note.stirred_ms = note.began_ms = now_ms()
        self.run.say(f"step {name}")
        yield note
        if note.change is None:
            self.finish(name, note)

    def finish(self, name: str, note: Note) -> None:
        """Waits until the step is over, and notes it."""
        converged = self.converge(note)
        members = self.run.demo.status()["members"]
        note.change = Change(
            name=name,
            quiet_ms=note.quiet_ms,
            stirred_ms=note.stirred_ms,
            began_ms=note.began_ms,
            ended_ms=now_ms(),
            converged=converged,
            loads={member_id: len(member["owned"]) for member_id, member in members.items()},
        )
        self.changes.append(note.change)
        self.run.say(f"step {name}: over after {(now_ms() - note.began_ms) / 1_000:.1f} s")
        self.judge(name, note)

    def drain(self, note: Note, consumer: Process, *arguments: str) -> None:
        """One member is to leave: told, or in a group without learners by SIGTERM."""
        if self.stateful:
            self.tell(note, "--members", self.run.member_of(consumer), *arguments)
            return
        note.leave.append(consumer)
        self.run.demo.tree.let_go(consumer)

    def tell(self, note: Note, *arguments: str) -> None:
        told = self.run.command("scale_down", GROUP, *arguments, "--reason", "scaling_check")
        note.told = told["leave"]
        self.run.say(f"told to leave: {', '.join(note.told)}")
        for consumer in self.run.demo.consumers:
            if consumer.name in map(name_of, note.told):
                note.leave.append(consumer)

    def under_way(self, note: Note) -> None:
        """Until somebody learns, or as long as that can take. Raises OverTooSoon."""
        if self.stateful:
            self.run.happens(self.somebody_learns, UNDER_WAY_S)
        here = self.run.demo.status()["members"]
        if note.told and not any(member_id in here for member_id in note.told):
            raise OverTooSoon  # though its process may still be ending
        if all(consumer.pid is None for consumer in note.leave):
            raise OverTooSoon

    def somebody_learns(self) -> bool:
        return bool(self.run.demo.status()["learning"])

    def owner(self) -> Process:
        """A consumer that owns something, by chance."""
        return self.run.dice.choice(self.having("owned"))

    def learner(self, leaving: Process) -> Process:
        """One that learns now; when none is seen, one of those that stay."""
        others = [c for c in self.run.demo.consumers if c is not leaving]
        learning = [c for c in self.having("learning") if c is not leaving]
        return self.run.dice.choice(learning or others)

    def having(self, what: str) -> list[Process]:
        members = self.run.demo.status()["members"].items()
        names = {name_of(member_id) for member_id, member in members if member[what]}
        return [consumer for consumer in self.run.demo.consumers if consumer.name in names]

    def able_since_ms(self, consumer: Process) -> int:
        since = self.run.demo.status()["able_since_ms"]
        return int(since.get(self.run.member_of(consumer), now_ms()))

    def reach(self, consumers: int) -> None:
        """So many consumers, without a step."""
        demo = self.run.demo
        while len(demo.consumers) < consumers:
            demo.start_consumer()
        while len(demo.consumers) > consumers:
            note = Note()
            self.drain(note, demo.consumers[-1])
            if not self.converge(note):
                raise TreeFailed(f"{note.leave[0].name} did not leave")

    def consumers_before(self, name: str) -> int:
        """A newcomer has to get something, and whoever leaves to leave somebody behind."""
        partitions = self.run.demo.options.partitions
        return max(1, min(CONSUMERS, partitions - 1)) if name == "add" else CONSUMERS

    # --- the end of a step

    def converge(self, note: Note) -> bool:
        if not self.run.happens(lambda: self.is_over(note), CONVERGE_S):
            return False
        for consumer in note.leave:  # a later one of that name must begin without its replicas
            shutil.rmtree(self.run.demo.parts.state_folder(consumer.name), ignore_errors=True)
        return True

    def is_over(self, note: Note) -> bool:
        """Who had to leave is gone, what is owned is what was given, nobody learns, no scale-down
        runs, and every partition has committed since.
        """
        demo, status = self.run.demo, self.run.demo.status()
        gone = [*note.leave, *(c for c in note.killed if c.pid is None)]
        names = {consumer.name for consumer in gone}
        left = [member_id for member_id in status["members"] if name_of(member_id) in names]
        here = [consumer for consumer in demo.consumers if consumer not in gone]
        is_settled = (
            status["ready"]
            and not left
            and all(consumer.pid is None for consumer in note.leave)
            and len(status["members"]) >= len(here)
            and not status["learning"]
            and not status["scale_downs_running"]
        )
        if not is_settled:
            note.settled_ms = 0
        elif not note.settled_ms:
            note.settled_ms = status["at_ms"]
        return bool(is_settled and status["committed_ms"] > note.settled_ms)

    def judge(self, name: str, note: Note) -> None:
        """Everybody who left did so as the step is about."""
        if note.change and not note.change.converged:
            self.problems.append(f"{name}: it did not converge within {CONVERGE_S:.0f} s")
        for consumer in note.leave:
            code = consumer.exit_code()
            if consumer not in note.killed and code != 0:
                self.problems.append(f"{name}: {consumer.name} ended with {code}")
        outcomes = self.run.demo.status()["outcomes"]
        for member_id in note.told:
            if (outcome := outcomes.get(member_id)) != OUTCOMES.get(name, "clean"):
                self.problems.append(f"{name}: {member_id} went {outcome}")


STEPS: dict[str, Callable[[Scaling], None]] = {
    step.__name__: step
    for step in (
        Scaling.add,
        Scaling.drain_named,
        Scaling.drain_half,
        Scaling.kill_leaving,
        Scaling.kill_learner,
        Scaling.kill_celery,
        Scaling.kill_web,
        Scaling.timeout,
    )
}
