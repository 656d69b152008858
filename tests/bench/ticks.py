"""What a tick costs when nothing happens: CPU of the process that ticks and of Redis together, less
what Redis takes when nobody ticks.

tick_quiet_100k_ms: of a group whose partitions are all owned. tick_5000_empty_ms: of as many groups
without members. Both after the looks that come first, over rounds of one ticker a second apart:
what it found in the rounds before it reads again now and then, all of it within these.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.bench import apart
from tests.bench.apart import Figure

FIGURES = (
    Figure(name="tick_quiet_100k_ms", aim=10),
    Figure(name="tick_5000_empty_ms", aim=100),
)
PARTITIONS, GROUPS = 100_000, 5_000
TICKS = 25  # all rows are read anew twice, and one group's few numbers several times
TICKS_OF_MANY = 75  # each of them is read anew once
ALONE_S = 10.0
SETTLE_MAX = 20  # ticks until the groups rest
RESTED = 3  # ticks in a row: one that was just looked at may be due again a moment later
PROGRAM = "from tests.bench import ticks; ticks.{}({})"


def figures() -> list[dict[str, Any]]:
    return apart.rows(FIGURES, measured)


def measured() -> list[tuple[float, str]]:
    [quiet_ms] = apart.values(PROGRAM.format("quiet", PARTITIONS))
    [empty_ms] = apart.values(PROGRAM.format("empty", GROUPS))
    return [
        (quiet_ms, f"one group, {PARTITIONS} partitions, 200 members, SQLite"),
        (empty_ms, f"{GROUPS} groups without members, SQLite"),
    ]


def quiet(partitions: int) -> None:
    """In a process of its own, which has Django, as `empty`: prints ms of CPU a tick."""
    from tests.bench.live_group import LiveGroup

    LiveGroup(partitions).keep_history()
    print(settled_ms(TICKS))


def empty(groups: int) -> None:
    from assignment.types import GroupSettings
    from dashboard.models import Group

    names = [f"bench-{number:05}" for number in range(groups)]
    settings = {name: GroupSettings(stream=name, partitions=4) for name in names}
    Group.objects.bulk_create(
        Group(name=name, stream=name, partitions=4, settings=one.values())
        for name, one in settings.items()
    )
    print(settled_ms(TICKS_OF_MANY))


def settled_ms(ticks: int) -> float:
    """A tick's, once there is nothing to do."""
    from dashboard import coordinator
    from dashboard.coordinator.resting import remembering
    from dashboard.coordinator.running import Line, Round, Said
    from dashboard.coordinator.ticker import TICK_S

    line, said = Line(remembering()), Said()
    with _living(said):
        rested = 0
        for _ in range(SETTLE_MAX):
            began_s = time.monotonic()
            looked_at = Round(said, line=line).run()
            apart.progress(f"{looked_at} groups looked at")
            coordinator.keep_history()
            rested = 0 if looked_at else rested + 1
            if rested == RESTED:
                break
            time.sleep(max(0.0, began_s + TICK_S - time.monotonic()))
        else:
            raise apart.NotMeasured(f"after {SETTLE_MAX} ticks {looked_at} groups do not rest")
        looked_at, began_ms = 0, _cpu_ms()
        for _ in range(ticks):
            began_s = time.monotonic()
            looked_at += Round(said, line=line).run()
            time.sleep(max(0.0, began_s + TICK_S - time.monotonic()))
        ticked_ms = (_cpu_ms() - began_ms) / ticks
    began_ms = _cpu_ms()
    time.sleep(ALONE_S)
    alone_ms = (_cpu_ms() - began_ms) / ALONE_S * TICK_S
    apart.progress(f"{ticked_ms:.1f} ms a tick, {alone_ms:.1f} without; {looked_at} looks")
    return round(ticked_ms - alone_ms, 1)


@contextmanager
def _living(said: Any) -> Iterator[None]:
    """Signs of life, as a ticker gives them however long a look takes: after three seconds without
    one every group is looked at anew.
    """
    ended = threading.Event()

    def live() -> None:
        while not ended.wait(said.left_s()):
            if not said.left_s():
                said.say()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _cpu_ms() -> float:
    from dashboard.live.connection import sync_client

    used = sync_client().info("cpu")
    redis_s = float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
    return (time.process_time() + redis_s) * 1_000
