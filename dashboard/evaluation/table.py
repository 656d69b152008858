"""The RocketMQ report's table: how long a group takes for so many messages while it rebalances once
or twice, by who computes the target and by which strategy.

Each run has a system of its own. All messages lie in streams of other names; when the group is
even they get their names in one step, and the clock of Redis runs from there to the last commit.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from assignment.errors import InvalidInput
from assignment.wire import StreamKeys
from dashboard.demo.tree import TreeFailed
from dashboard.evaluation import figures as measures
from dashboard.evaluation.chaos import figures
from dashboard.evaluation.chaos.asked import CONSUMERS, Asked
from dashboard.evaluation.chaos.history import History
from dashboard.evaluation.chaos.run import is_settled
from dashboard.evaluation.chaos.world import GROUP, SETTLE_S, World
from dashboard.evaluation.figures import is_within, name_of
from dashboard.evaluation.judge import Content
from dashboard.evaluation.paired import NAME, compared
from dashboard.evaluation.setting import setting, today
from dashboard.evaluation.system import run_program
from dashboard.live.connection import reaching_redis

MESSAGES, REPEAT, SIZE = 1_000_000, 5, 4  # SIZE: partitions, and consumers
MESSAGES_MIN, MESSAGES_MAX, REPEAT_MAX = 1_000, 100_000_000, 100
STAGE = "staged"
KEYS = 1_000
PRODUCE_S, RUN_S = 600.0, 1_800.0
TRIES = 3  # a machine that is busy elsewhere may start a consumer late
THEIRS = {  # ms, of the report: with one rebalance, with two
    ("server", "sticky"): (600_181, 772_540),
    ("server", "averagely"): (598_141, 769_566),
    ("client", "averagely"): (596_016, 767_318),
}
Say = Callable[[str], None]
Keep = Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    coordination: str
    strategy: str
    rebalances: int
    learners: bool = False

    @property
    def way(self) -> str:
        return f"{self.coordination}, {self.strategy}{', learners' if self.learners else ''}"


WAYS = (
    ("server", "sticky", False),
    ("server", "averagely", False),
    ("client", "averagely", False),
    ("client", "sticky", False),
    ("server", "sticky", True),
)
ROWS = tuple(
    Row(coordination=c, strategy=s, learners=learners, rebalances=n)
    for n in (1, 2)
    for c, s, learners in WAYS
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """`rebalances`: how many moved anything before the last commit."""

    took_ms: int
    rebalances: int
    partitions_moved: int
    paused_partition_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Raises InvalidInput."""

    messages: int = MESSAGES
    repeat: int = REPEAT
    consumer: str = "light"

    def __post_init__(self) -> None:
        if not MESSAGES_MIN <= self.messages <= MESSAGES_MAX:
            raise InvalidInput(
                f"messages {self.messages} is not within {MESSAGES_MIN} and {MESSAGES_MAX}"
            )
        if not 1 <= self.repeat <= REPEAT_MAX:
            raise InvalidInput(f"repeat {self.repeat} is not within 1 and {REPEAT_MAX}")
        if self.consumer not in CONSUMERS:
            raise InvalidInput(
                f"there is no consumer {self.consumer!r}: choose from {', '.join(CONSUMERS)}"
            )

    def asked(self, row: Row) -> Asked:
        return Asked(
            faults=(),
            agents=SIZE,
            partitions=SIZE,
            coordination=row.coordination,
            strategy=row.strategy,
            consumer=self.consumer,
            stateful=row.learners,
        )


# --- one run


@dataclass(slots=True)
class Run:
    world: World
    row: Row
    messages: int
    victim: str
    began_ms: int = 0

    def go(self) -> Measured:
        """Raises TreeFailed, Refused, Stopped."""
        world = self.world
        world.start()
        world.wait(lambda: is_settled(world), SETTLE_S, "the group did not settle")
        self.produce()
        act = self.prepare_drain() if self.row.learners else None
        try:
            self.began_ms = self.release()
            self.reach(self.messages // 4)
            world.struck.add(self.victim)
            if act is None:
                world.agents[self.victim].part.ask_to_end()
            if self.row.rebalances == 2:
                self.reach(self.messages * 3 // 4)
                world.wait(self.has_left, RUN_S, f"{self.victim} did not leave")
                world.start_agents([self.victim])
            self.reach(self.messages)
        finally:
            if act is not None and act.poll() is None:
                act.kill()
        return self.measured()

    def produce(self) -> None:
        told = ("--stream", STAGE, "--keys", str(min(KEYS, self.messages)), "--form", "lines")
        count = ("--events", str(self.messages), "--partitions", str(SIZE))
        done = run_program(
            self.world.parts.environment, "agent.pipelines.load", *told, *count, timeout_s=PRODUCE_S
        )
        if done.returncode:
            raise TreeFailed(f"the messages were not produced: {done.stderr.strip()[-200:]}")

    def prepare_drain(self) -> "subprocess.Popen[bytes]":
        member = self.world.member_of(self.victim)
        return self.world.begin("drain", member or "", str(self.messages // 4))

    def release(self) -> int:
        """The staged streams become the group's. Since when, by the clock of Redis."""
        client = self.world.eye.server.client
        staged, stream = StreamKeys(STAGE), StreamKeys(GROUP)
        kinds = ("entries", "producers", "index")
        with reaching_redis():
            pairs = [
                (getattr(staged, kind)(n), getattr(stream, kind)(n))
                for n in range(SIZE)
                for kind in kinds
            ]
            pairs = [pair for pair in pairs if client.exists(pair[0])]
            with client.pipeline(transaction=True) as pipe:
                pipe.time()
                for pair in pairs:
                    pipe.rename(*pair)
                (seconds, microseconds), *_ = pipe.execute()
        return int(seconds) * 1_000 + int(microseconds) // 1_000

    def reach(self, events: int) -> None:
        done = f"{events} messages were not processed"
        self.world.wait(lambda: sum(n for n, _ in self.applied()) >= events, RUN_S, done)

    def applied(self) -> list[tuple[int, int]]:
        """Of each partition: events in total, and when the last commit was."""
        server = self.world.eye.server
        with reaching_redis():
            values = server.client.hvals(server.keys.applied)
        return [(int(total), int(at)) for total, at in (value.split(b" ")[:2] for value in values)]

    def has_left(self) -> bool:
        return self.world.agents[self.victim].part.exit_code() is not None

    def measured(self) -> Measured:
        applied, server = self.applied(), self.world.eye.server
        if (total := sum(n for n, _ in applied)) != self.messages:
            raise TreeFailed(f"{total} messages were applied, not {self.messages}")
        commits = {p: list(server.changelog(p)) for p in server.partitions}
        history = History(
            asked=self.world.asked,
            began_ms=self.began_ms,
            struck_ms=self.began_ms,
            healed_ms=None,
            ended_ms=max(at for _, at in applied),
            faults=(),
            eras=(Content(stream={}, commits=commits, events=server.lock_events()),),
            acknowledged=frozenset(),
        )
        return measured(history, self.victim)


def measured(history: History, victim: str) -> Measured:
    """The victim left when another one got a partition of it, and was back when it got one itself:
    how many partitions moved tells neither, a strategy that is not sticky moves several at once.

    paused_partition_ms: of each partition that changed hands, from the last commit under the
    fence before to the first under the next one.
    """
    change = measures.Change(
        name="rebalance",
        quiet_ms=history.began_ms,
        stirred_ms=history.began_ms,
        began_ms=history.began_ms,
        ended_ms=history.ended_ms + 1,
        converged=True,
    )
    handed = measures.handovers(
        measures.commits_by_partition(measures.commits_of(history.eras)), change
    )
    moved = [pair for pair in measures.moves(history.events) if is_within(pair[1].at_ms, history)]
    left = any(name_of(before.member_id) == victim for before, _ in moved)
    back = any(name_of(after.member_id) == victim for _, after in moved)
    return Measured(
        took_ms=history.ended_ms - history.began_ms,
        rebalances=left + back,
        partitions_moved=figures.moved(history),
        paused_partition_ms=sum(after.at_ms - before.at_ms for before, after in handed),
    )


def one_run(wanted: Wanted, row: Row, number: int) -> Measured:
    """Raises what ends it early; its logs are kept then."""
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-table-"))
    asked = wanted.asked(row)
    world = World(asked, folder, lambda line: None)
    try:
        found = Run(world, row, wanted.messages, asked.names[number % SIZE]).go()
    finally:
        world.close()
    shutil.rmtree(folder, ignore_errors=True)
    return found


# --- all of them


def whole_run(wanted: Wanted, row: Row, number: int, say: Say) -> Measured:
    """Another one in place of a run whose messages ended before the group had rebalanced: it would
    pass for a quick one. Raises TreeFailed when that stays so.
    """
    for _ in range(TRIES):
        one = one_run(wanted, row, number)
        if one.rebalances == row.rebalances:
            return one
        say(f"{row.way}: {one.rebalances} rebalances before the last message, once more")
    raise TreeFailed(
        f"{wanted.messages} messages end before {row.way} has rebalanced {row.rebalances} times:"
        " ask for more"
    )


def made(
    wanted: Wanted, rows: Sequence[Row], say: Say, keep: Keep = lambda found: None
) -> dict[str, Any]:
    """All runs. What the earlier ones measured is kept before whatever ends a run is raised."""
    found: dict[Row, list[Measured]] = {row: [] for row in rows}
    try:
        measure(wanted, found, say)
    except BaseException:
        if begun := {row: runs for row, runs in found.items() if runs}:
            keep(answer(wanted, begun))
        raise
    return answer(wanted, found)


def measure(wanted: Wanted, found: Mapping[Row, list[Measured]], say: Say) -> None:
    """One run of each row, then again: what else the machine does hits all alike. The one who
    leaves is another one each time, and the same for all rows.
    """
    for number in range(wanted.repeat):
        for row in found:
            one = whole_run(wanted, row, number, say)
            found[row].append(one)
            say(
                f"{number + 1} of {wanted.repeat}: {row.way}, {row.rebalances} rebalances:"
                f" {one.took_ms} ms, {one.partitions_moved} moved"
            )


def answer(wanted: Wanted, found: Mapping[Row, Sequence[Measured]]) -> dict[str, Any]:
    made_under = {"messages": wanted.messages, "setting": setting(), "ended_on": today()}
    return {**result(found, wanted.consumer), **made_under}


def chosen(numbers: str) -> tuple[Row, ...]:
    """All when none is named. Raises InvalidInput."""
    if not numbers:
        return ROWS
    try:
        wanted = {int(number) for number in numbers.split(",")}
    except ValueError:
        wanted = {0}
    if not wanted <= set(range(1, len(ROWS) + 1)):
        raise InvalidInput(f"rows {numbers!r} is no list of numbers from 1 to {len(ROWS)}")
    return tuple(row for number, row in enumerate(ROWS, 1) if number in wanted)


def result(found: Mapping[Row, Sequence[Measured]], consumer: str) -> dict[str, Any]:
    return {
        "rows": [as_row(row, runs, consumer) for row, runs in found.items()],
        "test": tested(found),
    }


def as_row(row: Row, runs: Sequence[Measured], consumer: str) -> dict[str, Any]:
    times = [one.took_ms for one in runs]
    return {
        "coordination": row.coordination,
        "strategy": row.strategy,
        "consumer": consumer,
        "learners": row.learners,
        "rebalances": row.rebalances,
        "runs_ms": times,
        "median_ms": median(times),
        "min_ms": min(times),
        "max_ms": max(times),
        "partitions_moved": median(one.partitions_moved for one in runs),
        "paused_partition_ms": median(one.paused_partition_ms for one in runs),
    }


def tested(found: Mapping[Row, Sequence[Measured]]) -> dict[str, Any]:
    """(server, sticky) less (client, averagely), in ms; over all pairs as a share of the latter."""
    mine, other = (Row(coordination=c, strategy=s, rebalances=1) for c, s, _ in (WAYS[0], WAYS[2]))
    results: dict[str, Any] = {"name": NAME, "of": "(server, sticky) - (client, averagely)"}
    shares: list[float] = []
    for count, word in ((1, "once"), (2, "twice")):
        pairs = [
            (a.took_ms, b.took_ms)
            for a, b in zip(
                found.get(replace(mine, rebalances=count), ()),
                found.get(replace(other, rebalances=count), ()),
                strict=False,  # rows that were not asked for
            )
        ]
        results[f"{word}_ms"] = compared([a for a, _ in pairs], [b for _, b in pairs])
        shares += [a / b - 1 for a, b in pairs]
    return {**results, "all_as_share": compared(shares, [0.0] * len(shares))}
