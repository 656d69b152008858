"""Runs a pipeline as the consumer beside an agent: `run(pipeline)`, or `main` as a program.

Starts Spark, hears from the agent what it may do and for how long, and ends by itself when the
agent is gone: after the batch in hand, at the latest when the lease would end.
"""

import contextlib
import os
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from agent.consumer.control import AgentLink, AgentUnreachable, monotonic_ms
from agent.consumer.in_hand import EXIT_FAILED, EXIT_JVM_KILLED, EXIT_LEASE, EXIT_NO_AGENT
from agent.ending import run_to_end
from agent.private import keep_private
from agent.spark import commit
from agent.spark.effects import StateEffects
from agent.spark.failures import Crashes, cause_of, jvm_was_killed
from agent.spark.health import PartitionHealth
from agent.spark.pace import Rate, latency_goal_ms
from agent.spark.pipeline import PARTITION_COLUMN, Pipeline
from agent.spark.progress import Progress
from agent.spark.ranges import NOTHING, batch_name, plan_of
from agent.spark.replays import ids_of
from agent.spark.session import fresh_folder, make_session
from agent.spark.shared import Shared
from agent.spark.sink_effects import sink_effects
from agent.spark.sink_start import hand_over
from agent.spark.snapshotter import Snapshotter
from agent.spark.source import FORMAT, EvenkeelSource
from agent.spark.warm_up import WarmUp
from agent.store.events import EventStore
from agent.store.group import GroupStore
from assignment.errors import EvenkeelError
from assignment.troubles import WHY_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

START_TRIES = 3  # "Python worker failed to connect back" happens on a loaded machine
QUERY_TRIES = 5  # in a row without a finished batch; then the agent starts a new process
TROUBLE_PAUSE_S = 1.0
WATCH_EVERY_S = 0.02  # the lease
LOOK_EVERY_S = 0.1  # whether the query runs
# Spark's own offsets are of no use here, so they may be written late and seldom.
PROGRESS_OPTIONS = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "60000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}
_log = structlog.get_logger()


def main(pipeline: Pipeline) -> NoReturn:
    """The program of a consumer; it ends the process, so what else is to be done at the end goes to
    atexit. Exit codes: 0 ended in order, 1 failed, 3 no agent, 4 its lease ended with a batch in
    hand, 5 its JVM was killed from outside.
    """
    keep_private()
    run_to_end(partial(_main, pipeline))


def _main(pipeline: Pipeline) -> None:
    try:
        run(pipeline)
    except AgentUnreachable as error:
        sys.exit(_told(error, EXIT_NO_AGENT))
    except EvenkeelError as error:
        sys.exit(_told(error, EXIT_FAILED))


def run(pipeline: Pipeline) -> None:
    """Processes what the agent's member owns until SIGTERM or until the agent is gone.

    Raises AgentUnreachable, and what stops Spark from starting or a batch from being processed.
    """
    stop, has_consumer = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def agent_gone() -> None:
        stop.set()
        if not has_consumer.is_set():  # Spark is starting: nothing is in hand that could end
            os._exit(EXIT_NO_AGENT)

    link = AgentLink.connect(stateful=pipeline.stateful, on_gone=agent_gone)
    consumer: Consumer | None = None
    session = None
    try:
        session = _started_session(pipeline, stop)
        link.say(spark_application_id=session.sparkContext.applicationId)
        consumer = Consumer(pipeline, link, session, stop)
        has_consumer.set()
        consumer.process()
    except Exception as error:
        if not jvm_was_killed(session):
            raise
        sys.exit(_told(error, EXIT_JVM_KILLED))
    finally:
        if consumer is not None:
            consumer.close()
        if session is not None:
            with contextlib.suppress(Exception):  # Spark may be gone already
                session.stop()
        link.close()


def _started_session(pipeline: Pipeline, stop: threading.Event) -> "SparkSession":
    for attempt in range(1, START_TRIES + 1):
        try:
            session = make_session(pipeline.name)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent gets it too, and asks to end
            return session
        except EvenkeelError:
            raise
        except Exception as error:
            if attempt == START_TRIES or stop.is_set():
                raise
            _log.warning("spark did not start", attempt=attempt, why=cause_of(error))
            time.sleep(TROUBLE_PAUSE_S)
    raise AssertionError("unreachable")


class Consumer:
    """One Spark query and its batches, for as long as the agent says."""

    def __init__(
        self, pipeline: Pipeline, link: AgentLink, session: "SparkSession", stop: threading.Event
    ) -> None:
        control = link.control
        self._pipeline, self._link, self._session, self._stop = pipeline, link, session, stop
        self._group, self._member = control.group, control.member
        self._schema = f"{pipeline.schema}, {PARTITION_COLUMN} int"
        self._folder = fresh_folder()
        self._shared = Shared.create(self._folder)
        self._groups = GroupStore.connect(
            control.redis_url, control.group, snapshots_below=control.snapshot_url
        )
        self._events = EventStore.connect(control.redis_url)
        self._crashes = Crashes(self._groups, control.state_dir)
        self._progress = Progress(self._groups, control.speaker)
        self._progress.say(spark_application_id=session.sparkContext.applicationId)
        self._effects = self._effects_of(pipeline)
        self._progress.say(effects=self._effects.kind.value)
        self._committer = commit.Committer(
            self._groups, self._member, self._effects, link.may_process
        )
        self._held_back: dict[str, int] = {}  # partition -> its last fence that was refused
        self._partitions = PartitionHealth()
        self._said: Mapping[str, Any] = {}
        self._rate = Rate()
        self._warm_up = WarmUp()
        self._run = ""
        self._failures = 0
        self._ended = threading.Event()

    def _effects_of(self, pipeline: Pipeline) -> commit.Effects:
        link, control = self._link, self._link.control
        if pipeline.sink is not None:
            hand_over(pipeline.sink, self._folder)
            _log.info("sink", guarantee=pipeline.sink.guarantee)
            return sink_effects(pipeline.sink, self._group, link.may_process)
        assert pipeline.merge is not None
        snapshots = Snapshotter(self._groups, control.snapshot_url, lambda: link.settings.trimming)
        return StateEffects(self._groups, control.state_dir, self._group, pipeline.merge, snapshots)

    # --- the query

    def process(self) -> None:
        """Until `stop`; a query that failed is started again, from what is committed. This thread
        never waits for `stop`: SIGTERM sets it in this very thread, which would hold its lock then.
        """
        self._share()
        threading.Thread(target=self._watch, name="lease", daemon=True).start()
        self._session.dataSource.register(EvenkeelSource)
        self._shared.set("warm_up", self._warm_up.left)
        self._check_pipeline()
        while not self._stop.is_set():
            query = self._start_query()
            if not self._shared.get("warm_up"):
                self._progress.say(state="ready", why="")
            while query.isActive and not self._stop.is_set():
                self._say_news()
                time.sleep(LOOK_EVERY_S)
            self._finish(query)
            if (error := query.exception()) is not None and not self._stop.is_set():
                self._failed(error)
        _log.info("consumer ends", why="agent gone" if self._link.gone.is_set() else "asked to")

    def _start_query(self) -> "StreamingQuery":
        self._run = secrets.token_hex(6)
        self._shared.write_plan(0, NOTHING)
        self._shared.set("finished", 0)
        checkpoint = self._folder / f"checkpoint-{self._run}"
        cores = self._session.sparkContext.defaultParallelism
        stream = (
            self._session.readStream.format(FORMAT)
            .schema(self._schema)
            .options(
                redis_url=self._link.control.redis_url,
                group=self._group,
                member=self._member,
                process=self._link.control.process,
                stream=self._link.settings.stream,
                folder=str(self._folder),
                run=self._run,
                tasks=str(cores),
            )
            .load()
        )
        writer = stream.writeStream.foreachBatch(self._batch).options(
            **PROGRESS_OPTIONS, checkpointLocation=str(checkpoint)
        )
        return writer.trigger(processingTime="0 seconds").start()

    def _check_pipeline(self) -> None:
        """A pipeline that Spark refuses is told before anything is owned."""
        nothing = self._session.createDataFrame([], self._schema)
        commit.check_columns(self._pipeline.changes(nothing).columns)

    def _failed(self, error: Exception) -> None:
        """Counts a query that ended with an error; raises it after too many in a row."""
        self._failures += 1
        _log.warning("query failed", failures=self._failures, why=cause_of(error))
        if self._crashes.count(cause_of(error)):
            self._failures = 0
        self._progress.say(state="starting", why=cause_of(error))
        if self._failures >= QUERY_TRIES:
            raise error
        time.sleep(TROUBLE_PAUSE_S)

    def _finish(self, query: "StreamingQuery") -> None:
        """Ends the query after the batch in hand; what is planned then is planned no more."""
        self._shared.set("stopping", 1)
        polls = self._shared.get("polls")
        while query.isActive and self._in_hand(polls) and self._link.may_process():
            time.sleep(WATCH_EVERY_S)
        if self._stop.is_set() and self._shared.get("planned") != self._shared.get("finished"):
            self._leave_hard()
        query.stop()
        self._shared.set("finished", self._shared.get("planned"))
        self._shared.set("stopping", 0)

    def _in_hand(self, polls: int) -> bool:
        """A batch may be running, or a plan be on its way since before `stopping` was set."""
        finished = self._shared.get("planned") == self._shared.get("finished")
        return not (finished and self._shared.get("polls") >= polls + 2)

    # --- one batch

    def _batch(self, events: "DataFrame", batch_id: int) -> None:
        started_s = time.monotonic()
        plan = self._shared.read_plan()
        if plan["tasks"] == 1:
            events = events.coalesce(1)  # spares the shuffle
        if plan.get("warm_up"):
            self._practise(events, plan, started_s)
            return
        if not plan["p"]:  # Spark's first batch, when nothing was owned or appended yet
            return
        ranges = plan_of(plan, self._link.settings.stream)
        batch = batch_name(self._run, plan)
        letters = ids_of(plan.get("replay", ()))
        self._crashes.begin(ranges, int(plan.get("alone", 0)), len(letters))
        try:
            table = self._pipeline.changes(events).toArrow()
            names = [one.name(batch) for one in ranges]
            take = partial(self._events.take_counts, self._group, self._member, names)
            packed = self._committer.asked(take)
            if len(packed) < len(names):  # not read, as Spark needed nothing of it; or a lost reply
                events.write.format("noop").mode("overwrite").save()
                packed |= self._committer.asked(take)
            counted = commit.counted_ranges(ranges, batch, packed)
            changes = commit.changes_by_partition(table)
            outcome = self._committer.commit(counted, changes, letters)
        except commit.LeaseOver as error:
            _log.warning("batch given up", batch=plan["n"], why=str(error))
            self._progress.say(why=str(error))
            self._crashes.done()
            self._shared.set("finished", plan["n"])
            time.sleep(TROUBLE_PAUSE_S)
            return
        self._hold_back(outcome)
        troubles = self._troubles()
        self._rate.learn(sum(outcome.applied.values()), time.monotonic() - started_s)
        self._failures = 0
        self._progress.batch_done(int(plan["n"]), started_s, outcome, troubles)
        self._share()
        self._crashes.done()
        self._shared.set("finished", plan["n"])
        if outcome.failed:
            time.sleep(TROUBLE_PAUSE_S)

    def _practise(self, events: "DataFrame", plan: Mapping[str, Any], started_s: float) -> None:
        """Does what a batch does until the commit (agent/spark/warm_up.py). That it fails is no
        reason not to be ready: the partitions with those events may be somebody else's.
        """
        try:
            self._pipeline.changes(events).toArrow()
            left = self._warm_up.done(plan["tasks"], time.monotonic() - started_s)
        except Exception as error:
            _log.warning("warm-up failed", why=cause_of(error))
            left = self._warm_up.failed()
        self._shared.set("warm_up", left)
        self._shared.set("finished", plan["n"])
        if not left:
            self._progress.say(state="ready", why="")

    def _hold_back(self, outcome: commit.Outcome) -> None:
        for one in outcome.fenced:
            _log.warning("fenced", partition=str(one.partition), fence=one.fence)
            self._held_back[str(one.partition)] = one.fence
        for one, halted in outcome.halted.items():
            name, why = str(one.partition), halted.why
            _log.warning("halted", partition=name, fence=one.fence, entry=halted.entry, why=why)
        for one, why in outcome.failed.items():
            _log.warning("state failed", partition=str(one.partition), fence=one.fence, why=why)
        self._partitions.take(outcome)

    def _troubles(self) -> Mapping[str, Any]:
        """What is not told of as halted counts as lag of this consumer."""
        planned = self._shared.troubles()
        why = "; ".join(why[:WHY_MAX] for why in planned.why)
        return {"why": why, **self._partitions.facts(planned.halted)}

    def _say_news(self) -> None:
        """What no batch says: trouble of the planner, and how long Spark took in all. A listener of
        its queries would say that too: in Python it took a fifth of the JVM's time.
        """
        news = {**self._troubles(), "batch_ms": self._shared.get("batch_ms")}
        if news != self._said:
            self._said = news
            self._progress.say(**news)

    def _share(self) -> None:
        """For the planner: what not to plan, what a malformed event does, how large a batch is and
        how long it may wait.
        """
        settings = self._link.settings
        policy = settings.dead_letters
        if policy != "halt":
            self._partitions.forget_malformed()
        halted = {(str(partition), fence) for partition, fence in self._partitions.halted}
        self._shared.hold_back(self._held_back.items() | halted, policy)
        self._shared.set("events_max", self._rate.events_max)
        self._shared.set("latency_goal_ms", latency_goal_ms(settings))

    # --- lease

    def _watch(self) -> None:
        """Shares how long the planner may plan; ends the process when the agent is gone and the
        time is over, whatever Spark is doing.
        """
        settings = self._link.settings
        while not self._ended.wait(WATCH_EVERY_S):
            self._shared.set("lease_end_ms", self._link.lease_end_ms)
            if settings is not self._link.settings:
                settings = self._link.settings
                self._share()
            if self._link.gone.is_set() and monotonic_ms() >= self._link.lease_end_ms:
                self._leave_hard()

    def _leave_hard(self) -> None:
        """Without waiting for Spark: its JVM and workers end with this process."""
        _log.warning("consumer ends with a batch in hand", why="its time is over")
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(EXIT_LEASE)

    def close(self) -> None:
        """The session is left to who made it."""
        self._ended.set()
        self._progress.end("ended")
        self._effects.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _told(error: Exception, code: int) -> int:
    _log.error("consumer failed", why=cause_of(error))
    return code
