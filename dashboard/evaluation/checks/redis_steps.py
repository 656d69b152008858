"""The faults of redis_check in one running tree: each is caused, healed and waited out.

Every fault is undone in `finally`; what is struck is a process that the run itself started.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import psutil

from dashboard.demo import processes
from dashboard.demo.embedded_redis import EmbeddedRedis, RedisNotStarted, free_port, wheel_binary
from dashboard.demo.options import Refused
from dashboard.demo.tree import Part, Process, TreeFailed
from dashboard.evaluation.checks.pages import Pages
from dashboard.evaluation.checks.redis_judge import Step, broken, not_judged
from dashboard.evaluation.checks.redis_run import Note, RedisRun, Vacuous
from dashboard.evaluation.figures import name_of
from dashboard.evaluation.forwarder import Forwarder
from dashboard.evaluation.redis_servers import (
    BEHIND_MIN,
    Postgres,
    appended,
    behind_clock,
    forgetting,
    replica_appended,
    server,
)
from dashboard.evaluation.system import RECOVER_S, TIMINGS
from dashboard.live.connection import StoreUnavailable

WRITES_BEHIND = 200  # at least, of a replica that is promoted
OLDER_S = 5.0
AWAY_S = 60.0
HUNG_S = 12.0
PAGE_MS_MAX = 3_000
WAIT_S = 60.0  # for a replica, a member, a number of writes
STRANGER = 4  # number of the agent with another Redis, beside three consumers
SLEEPS = ("sleep", "86400")  # in the place of its consumer, which nobody will ever need
NOT_OURS = "not the redis of the dashboard"  # in what that agent says
LEAD_S = 5.0  # between one thing that a step does and the next


@dataclass(slots=True)
class RedisSteps:
    run: RedisRun
    postgres: Postgres | None = None
    is_used: bool = False
    is_sound: bool = True  # whether another step may follow in this tree

    def one(self, name: str, fault: "Fault") -> Step | None:
        """None: this tree had steps before and has no quiet start for another. Raises Stopped."""
        try:
            note = self.run.begin(name)
        except (TreeFailed, StoreUnavailable) as error:
            self.is_sound = False
            return None if self.is_used else not_judged(name, f"no quiet start: {error}")
        self.is_used = True
        try:
            fault(self, note)
            return self.run.judge(note)
        except (Vacuous, RedisNotStarted) as error:
            return not_judged(name, f"vacuous: {error}")
        except (TreeFailed, StoreUnavailable) as error:
            self.is_sound = False
            return broken(name, note.how, [*note.problems, str(error)])

    # --- a Redis that forgets

    def failover_gone(self, note: Note) -> None:
        with self.lagging(note) as (old, new):
            with self.run.demo.tree.not_restarting(self.run.part):
                old.kill()
                self.take_over(note, new)
            note.how += "; the old primary was killed"
            note.past = self.run.content_of(old.folder)
            self.run.recover(note)

    def failover_readonly(self, note: Note) -> None:
        """The old primary becomes a replica; connections to it stay open and are refused writes."""
        with self.lagging(note) as (old, new):
            self.take_over(note, new)
            self.run.seen(old).follow(free_port(), old.password)  # where nobody is
            note.past = self.run.content(old)
            assert new.port is not None, "it was started"
            self.run.seen(old).follow(new.port, new.password)
            note.how += "; the old primary answered READONLY on connections that stayed open"
            self.run.recover(note)

    @contextmanager
    def lagging(self, note: Note) -> Iterator[tuple[EmbeddedRedis, EmbeddedRedis]]:
        """Primary, and a replica at least WRITES_BEHIND writes behind it; one of them is left."""
        old = self.run.primary
        assert old.port is not None, "it was started"
        link = Forwarder(old.port)
        new = server(self.run.demo.options.data / f"redis-{time.monotonic_ns()}", like=old)
        new.start()
        try:
            self.run.seen(new).follow(link.port, old.password)
            self.wait(lambda: self.run.seen(new).is_synced(), "the replica did not catch up")
            self.run.run.pass_time(LEAD_S)
            writes = self.run.seen(old).writes()
            link.cut()
            self.unseen()
            self.wait(
                lambda: self.run.seen(old).writes() - writes >= WRITES_BEHIND,
                f"fewer than {WRITES_BEHIND} writes came",
            )
            behind = self.run.seen(old).writes() - writes
            note.how = f"a replica {behind} writes behind was promoted, and the name switched to it"
            yield old, new
            self.configure(self.run.demo.options.stateful)
        finally:
            (new if self.run.primary is old else old).kill()
            link.close()

    def take_over(self, note: Note, new: EmbeddedRedis) -> None:
        assert new.port is not None, "it was started"
        self.run.seen(new).promote()
        self.run.part.server = new
        self.run.name.switch(new.port)
        self.run.heal(note)

    def lost_writes(self, note: Note) -> None:
        redis = self.run.primary
        older = redis.folder / "older"
        replica_appended(redis.folder, older)
        writes, began = self.run.seen().writes(), time.monotonic()
        self.unseen()
        self.run.run.pass_time(OLDER_S - (time.monotonic() - began))
        lost = self.run.seen().writes() - writes
        if lost <= 0:
            raise Vacuous("nothing was written")
        note.how = f"killed and restarted on an append-only folder {OLDER_S:.0f} s older"
        note.how += f", which lacked {lost} writes"
        self.restarted(note, lambda: older.rename(appended(redis.folder)))
        self.configure(self.run.demo.options.stateful)

    def unseen(self) -> None:
        """A change that what comes back knows nothing of: settings and a round, with new epochs."""
        before = self.run.seen().ownership().epochs
        self.configure(not self.run.demo.options.stateful)
        self.wait(
            lambda: max(before) < min(self.run.seen().ownership().epochs),
            "no round followed a change of the settings",
        )

    def configure(self, stateful: bool) -> None:
        parts = self.run.demo.parts
        try:
            replace(parts, options=replace(parts.options, stateful=stateful)).prepare()
        except Refused as error:
            raise TreeFailed(f"the settings could not be changed: {error}") from error

    def wipe(self, note: Note) -> None:
        note.how = "killed and restarted without its data, on the same port"
        self.restarted(note, lambda: None)

    def restarted(self, note: Note, put_back: Callable[[], object]) -> None:
        """Killed; its folder taken away as evidence; started on what is put back."""
        redis = self.run.primary
        evidence = redis.folder.with_name(f"evidence-{time.monotonic_ns()}")
        with self.run.demo.tree.not_restarting(self.run.part):
            with forgetting(redis, evidence, put_back):
                pass
            self.run.heal(note)
        note.past = self.run.content_of(evidence)
        self.run.recover(note)
        shutil.rmtree(evidence)

    def clock_back(self, note: Note) -> None:
        """From here on this server's clock is behind: the step is the last one of its tree."""
        redis = self.run.primary
        program = behind_clock(self.run.demo.options.data / "clock", BEHIND_MIN)
        with self.run.demo.tree.not_restarting(self.run.part):
            if program is None:
                ahead = f"all stream ids were set {BEHIND_MIN} minutes ahead"
                note.how = f"emulation, libfaketime is not to be had: {ahead}"
                self.run.seen().run_ahead(BEHIND_MIN * 60_000)
            else:
                note.how = f"restarted under libfaketime, its clock {BEHIND_MIN} minutes back"
            redis.stop()
            redis.binary = program or wheel_binary()
            redis.start()
            self.run.heal(note)
        self.run.recover(note)

    # --- one that misbehaves, one that is away

    def wrong_redis(self, note: Note) -> None:
        other = server(self.run.demo.options.data / "redis-other")
        other.start()
        parts, options = self.run.demo.parts, self.run.demo.options
        foreign = replace(parts, redis_url=other.url, options=replace(options, pipeline=SLEEPS))
        stranger = foreign.consumer(STRANGER, is_ready=bool)
        victim = self.victim(note)
        note.how = (
            f"{stranger.name} was started on another Redis, then {victim.name} was killed:"
            " recovered_ms is from there"
        )
        stranger.start()
        try:
            self.wait(
                lambda: self.is_member(stranger) or NOT_OURS in self.log_text(stranger),
                f"{stranger.name} neither joined nor refused",
            )
            self.run.run.pass_time(2 * TIMINGS.session_timeout_ms / 1_000)
            self.fail_over(note, victim)
            if NOT_OURS not in self.log_text(stranger):
                note.problems.append(f"{stranger.name} did not say that its Redis is another one")
        finally:
            stranger.ask_to_end()
            stranger.stop(patient=True)
            other.kill()
        self.run.demo.wait_settled()

    def log_text(self, part: Process) -> str:
        return self.run.log_of(part).lower() if part.log.exists() else ""

    def is_member(self, part: Process) -> bool:
        return part.name in map(name_of, self.run.demo.status()["members"])

    def database_away(self, note: Note) -> None:
        if self.postgres is None:
            raise Vacuous("the tree does not run on PostgreSQL")
        tree = self.run.demo.tree
        watch = [part for part in tree.parts if part.name == "watch"]
        victim = self.victim(note)
        note.how = f"PostgreSQL was stopped for {AWAY_S:.0f} s and {victim.name} killed meanwhile"
        note.how += ": recovered_ms is from there"
        self.postgres.stop()
        began = time.monotonic()
        try:
            self.run.run.pass_time(LEAD_S)
            self.fail_over(note, victim, *watch, seconds=AWAY_S - LEAD_S)
            self.run.run.pass_time(AWAY_S - (time.monotonic() - began))
        finally:
            self.postgres.start()
        self.run.demo.wait_settled()

    def fail_over(
        self, note: Note, victim: Process, *left_dead: Part, seconds: float = RECOVER_S
    ) -> None:
        """Kills an agent with its consumer; the others must take over while it stays away."""
        member = self.run.run.member_of(victim)
        with self.run.demo.tree.not_restarting(victim, *left_dead):
            processes.kill(victim.family)
            self.run.heal(note)
            self.run.recover(note, (member,), seconds)

    def victim(self, note: Note) -> Process:
        victim: Process = self.run.run.dice.choice(self.run.demo.consumers)
        note.hurt.append(victim.name)
        return victim

    def redis_hung(self, note: Note) -> None:
        pid = self.run.primary.pid
        if pid is None:
            raise Vacuous("the server does not run")
        process = psutil.Process(pid)
        with (
            self.run.demo.tree.not_restarting(self.run.part),
            Pages(self.run.demo.options) as pages,
        ):
            process.suspend()
            try:
                pages.watch()
                self.run.run.pass_time(HUNG_S)
            finally:
                process.resume()
            self.run.heal(note)
            slowest_ms, wrong = pages.judged(PAGE_MS_MAX)
        note.how = f"SIGSTOP for {HUNG_S:.0f} s; the slowest page took {slowest_ms} ms"
        note.problems += wrong
        self.run.recover(note)

    # ---

    def wait(self, condition: Callable[[], bool], failed: str) -> None:
        """Raises Vacuous: what the fault needs did not come."""
        if not self.run.run.happens(condition, WAIT_S):
            raise Vacuous(f"{failed} within {WAIT_S:.0f} s")


# In the order in which they are run; of a tree's last step the clock stays behind.
Fault = Callable[[RedisSteps, Note], None]
STEPS: dict[str, tuple[Fault, ...]] = {
    "redis_hung": (RedisSteps.redis_hung,),
    "wrong_redis": (RedisSteps.wrong_redis,),
    "database_away": (RedisSteps.database_away,),
    "failover": (RedisSteps.failover_gone, RedisSteps.failover_readonly),
    "lost_writes": (RedisSteps.lost_writes,),
    "wipe": (RedisSteps.wipe,),
    "clock_back": (RedisSteps.clock_back,),
}
