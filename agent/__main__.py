"""`evenkeel-agent`, also `python -m agent`: puts the parts together and runs the loop."""

import json
import logging
import os
import queue
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import structlog

from agent import config as configuration
from agent.config import Config, ExitCode
from agent.consumer.consumer import Consumer
from agent.consumer.control import monotonic_ms
from agent.consumer.socket import ConsumerSocket, SocketUnusable
from agent.consumer.supervisor import ConsumerUnstartable, Supervisor
from agent.coordination.coordinator import Coordinator, CoordinatorThread
from agent.coordination.founding import Contradiction, Founder
from agent.coordination.memory import Memory
from agent.coordination.registry import Registry, first_of
from agent.dashboard_session.requests import Courier, Dashboards
from agent.dashboard_session.session import DashboardSession
from agent.ending import run_to_end
from agent.hints import HintListener
from agent.loop import Agent, Inbox, Signalled
from agent.membership import Membership, Note
from agent.private import keep_private
from agent.replicas.manager import ReplicaManager
from agent.state.errors import StateError
from agent.state.folders import StateDirUnusable, claim_state_dir
from agent.store.cluster import door_to
from agent.store.door import LoginRefused, StoreUnavailable, Timeouts, asked
from agent.store.group import GroupStore
from assignment import VERSION
from assignment.errors import InvalidInput
from assignment.scripts import dashboard_side
from assignment.types import Epoch, GroupSettings
from assignment.wire import SOCKET_VARIABLE, ControlMessage, Join

SCALE_DOWN = "scale-down"
REDIS_TIMEOUTS = Timeouts(connect_s=1.0, answer_s=1.0)
REPLICAS_TIMEOUTS = Timeouts(connect_s=1.0, answer_s=10.0)  # pages of a changelog may be large
REDIS_PATIENCE_S = 30.0  # at the start: Redis may be started beside this agent
REDIS_TRY_S = 0.5


class Ended(Exception):
    """A start that cannot go on: one sentence, and how to exit."""

    def __init__(self, code: ExitCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def main() -> NoReturn:
    run_to_end(_main)


def _main() -> int:
    keep_private()
    given = sys.argv[1:]
    if given[:1] == [SCALE_DOWN]:
        from agent import scale_down  # with numpy, which an agent may never need

        return scale_down.main(given[1:])
    try:
        config = configuration.parse(given)
        note = _logging(config)
        return int(_run(config, note))
    except (InvalidInput, ConsumerUnstartable, SocketUnusable, StateDirUnusable) as error:
        ended = Ended(ExitCode.BAD_CONFIGURATION, str(error))
    except Ended as error:
        ended = error
    print(f"evenkeel-agent: {ended}", file=sys.stderr)
    return int(ended.code)


def _run(config: Config, note: Note) -> ExitCode:
    inbox: queue.SimpleQueue[Inbox] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: inbox.put(Signalled()))

    def stop() -> bool:
        return not inbox.empty()

    store = _redis(config, note, stop)
    founder = _founder(config, store, note)
    state_dir, held = claim_state_dir(config.state_root, stop)
    consumer_socket = ConsumerSocket(config.socket, inbox.put)
    environ = {**os.environ, SOCKET_VARIABLE: str(config.socket)}
    supervisor = None if config.attach else Supervisor(config.command, environ, inbox.put, (held,))
    consumer = Consumer(consumer_socket, supervisor, note)
    registry = (
        Registry(store, founder.make_group, founder.why_not)
        if founder
        else Registry(store, lambda: False)
    )
    courier = _courier(config, registry, store, inbox)
    replicas = _replicas(config, store, state_dir, inbox, note)
    settings = GroupSettings(stream="unknown", partitions=1)  # until the dashboard tells
    process = dashboard_side.process_of(config.secret) if config.instance else ""
    membership = Membership(
        store=store,
        member_id=config.member_id,
        process=process,
        settings=settings,
        replicas=replicas,
        clock=monotonic_ms,
        note=note,
    )
    agent = Agent(
        control=ControlMessage(
            group=config.group,
            member=config.member_id,
            process=process,
            redis_url=config.consumer_redis_url,
            state_dir=str(state_dir),
            snapshot_url=config.snapshot_url,
            settings=settings,
            lease_end_ms=0,
        ),
        membership=membership,
        session=DashboardSession(_identity(config), membership, courier, monotonic_ms, note),
        consumer=consumer,
        inbox=inbox,
        clock=monotonic_ms,
        note=note,
    )
    coordinator = CoordinatorThread(
        Coordinator(
            store,
            config.member_id,
            lambda: Epoch(membership.state.incarnation, membership.state.mode_epoch),
            Memory(config.snapshot_url, config.group),
            note,
        ),
        inbox.put,
    )
    hints = HintListener(store, config.member_id, inbox.put, coordinator.hear)
    try:
        for part in (consumer_socket, courier, hints, coordinator):
            part.start()
        code = agent.run()
    except Exception as error:
        note("a bug ends this agent", why=repr(error))
        raise
    finally:
        consumer.end_now()
        if supervisor is not None:
            supervisor.wait_gone()
        hints.close()
        coordinator.close()
        replicas.close()
        courier.close()
        consumer_socket.close()
    note("ended", code=int(code))
    return code


def _founder(config: Config, store: GroupStore, note: Note) -> Founder | None:
    if config.group_flags is None:
        return None
    founder = Founder(store, config.group_flags, note)
    try:
        founder.check(makes=not config.dashboards)
    except Contradiction as error:
        raise Ended(ExitCode.REFUSED, str(error)) from error
    except StoreUnavailable as error:
        raise Ended(ExitCode.REDIS_UNUSABLE, str(error)) from error
    return None if config.dashboards else founder  # a dashboard's own record of the group counts


def _courier(
    config: Config, registry: Registry, store: GroupStore, inbox: "queue.SimpleQueue[Inbox]"
) -> Courier:
    if not config.dashboards:
        return Courier(registry.ask, inbox.put)
    dashboards = Dashboards(config.dashboards, config.group, config.current_token, config.ca_file)
    ask = first_of(dashboards.ask, registry, store)
    return Courier(ask, inbox.put, dashboards.look_for_earlier)


def _replicas(
    config: Config,
    quick: GroupStore,
    state_dir: Path,
    inbox: "queue.SimpleQueue[Inbox]",
    note: Note,
) -> ReplicaManager:
    door = door_to(config.redis_url, REPLICAS_TIMEOUTS, config.redis_token)
    store = GroupStore(door, config.group, snapshots_below=config.snapshot_url)
    replicas = ReplicaManager(store, state_dir, inbox.put, monotonic_ms, quick=quick)
    try:
        replicas.find_left_over()
    except StateError as error:
        note("left replicas are not looked after", why=str(error))
    return replicas


def _redis(config: Config, note: Note, stop: Callable[[], bool]) -> GroupStore:
    """Waits for a Redis that is only starting. Raises Ended for one that will never do. Of a token
    that Redis does not know the dashboard says whether it is good.
    """
    door = door_to(config.redis_url, REDIS_TIMEOUTS, config.redis_token)
    give_up = time.monotonic() + REDIS_PATIENCE_S
    noted = False

    def may_wait(error: StoreUnavailable) -> bool:
        nonlocal noted
        if stop():
            raise Ended(ExitCode.LEFT, "asked to end before Redis answered") from error
        if not noted:
            note("waiting for Redis", why=str(error))
        noted = True
        return time.monotonic() <= give_up and not isinstance(error, LoginRefused)

    try:
        is_appendonly = asked(door.is_appendonly, REDIS_TRY_S, may_wait)
    except LoginRefused:
        is_appendonly = None
    except (InvalidInput, StoreUnavailable) as error:
        raise Ended(ExitCode.REDIS_UNUSABLE, str(error)) from error
    if is_appendonly is False:
        note("Redis keeps nothing on disk: appendonly is off")
    return GroupStore(door, config.group)


def _identity(config: Config) -> Join:
    return Join(
        member=config.member_id,
        secret=config.secret,
        host=socket.gethostname(),
        version=VERSION,
        instance=config.instance,
        zone=config.zone,
        capacity=config.capacity,
        pid=os.getpid(),
    )


def _logging(config: Config) -> Note:
    """One event per decision, on standard error. The answer is bound to group and member."""
    last: Any = (
        structlog.processors.JSONRenderer(serializer=json.dumps)
        if config.log_format == "json"
        else structlog.processors.LogfmtRenderer(
            key_order=["timestamp", "event", "group", "member"], drop_missing=True
        )
    )
    structlog.configure(
        processors=[structlog.processors.TimeStamper(fmt="iso", utc=True), last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    log = structlog.get_logger().bind(group=config.group, member=config.member_id)
    return partial(_note, log)


def _note(log: Any, event: str, /, **values: Any) -> None:
    log.info(event, **{name: value for name, value in values.items() if value is not None})


if __name__ == "__main__":
    main()
