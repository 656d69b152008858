"""The command `bench_assign`: its rows, its arrays, and what it refuses. No time is judged here."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from assignment.strategies.dense import NOBODY
from tests.bench.assign import measure, peers, report, work
from tests.bench.assign.work import EVENTS, Quality, Work, uniform

pytestmark = pytest.mark.filterwarnings(
    "ignore:(read|open)_text is deprecated:DeprecationWarning"  # kafka-python's way to its schemas
)
Arrays = dict[str, Any]
FIELDS = {
    "name",
    "best_ms",
    "median_ms",
    "ratio",
    "peak_mib",
    "moves",
    "least_moves",
    "max_minus_min",
    "most_even",
    "names_ms",
    "peer",
}


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("bench_assign", *words, stdout=out)
    return out.getvalue()


def dumped(tmp_path: Path, partitions: int, members: int, event: str) -> tuple[Any, Arrays]:
    path = tmp_path / "arrays"
    words = ("--case", str(partitions), str(members), event, "--dump", str(path), "--json")
    found = json.loads(run(*words))["rows"][0]
    with np.load(path) as arrays:
        return found, dict(arrays)


@pytest.fixture(autouse=True)
def short_yardstick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "YARDSTICK_SIZE", 1000)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, Work]:
    """Rows of the same kinds that take no time."""
    works = {
        "w1_fresh_1k": uniform(100, 10, "fresh"),
        "w4_leave_1m": uniform(100, 10, "leave"),
        "w7_mixed_leave": work.mixed_leave(size=2),
    }
    makers = {name: lambda made=made: made for name, made in works.items()}
    monkeypatch.setattr(work, "ROWS", makers)
    return works


# --- a case and its arrays ------------------------------------------------------------------------


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(("partitions", "members"), [(1000, 30), (7, 20), (50, 1)])
def test_moves_and_loads_can_be_counted_from_the_arrays(
    tmp_path: Path, partitions: int, members: int, event: str
) -> None:
    found, arrays = dumped(tmp_path, partitions, members, event)
    previous, owners = arrays["previous"], arrays["owners"]
    assert set(arrays) == {"previous", "owners"}
    assert {previous.dtype, owners.dtype} == {np.dtype(np.int32)}
    assert len(previous) == len(owners) == partitions
    live = work.after(event, members)
    loads = np.bincount(owners[owners != NOBODY], minlength=members + 1)[live]
    assert set(owners.tolist()) <= set(live.tolist()) | (set() if len(live) else {NOBODY})
    assert found["moves"] == ((previous != NOBODY) & (previous != owners)).sum()
    assert found["moves"] == found["least_moves"]
    assert found["max_minus_min"] == (np.ptp(loads) if len(live) else None)
    assert len(live) == 0 or np.ptp(loads) <= 1


def test_who_left_had_its_share_and_has_nothing_now(tmp_path: Path) -> None:
    _, arrays = dumped(tmp_path, 1000, 100, "leave10")
    left = set(arrays["previous"].tolist()) - set(arrays["owners"].tolist())
    assert left == set(range(0, 100, 10))


def test_who_joined_comes_last(tmp_path: Path) -> None:
    found, arrays = dumped(tmp_path, 1000, 100, "join")
    moved = arrays["owners"][arrays["previous"] != arrays["owners"]]
    assert moved.tolist() == [100] * found["moves"]


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("0", "3", "fresh"), "partitions '0' is not a whole number from 1 to 20000000"),
        (("1.5", "3", "fresh"), "partitions '1.5' is not"),
        (("99999999", "3", "fresh"), "partitions '99999999' is not"),
        (("5", "-3", "fresh"), "members '-3' is not a whole number from 1 to 1000000"),
        (("5", "²", "fresh"), "members '²' is not"),
        (("5", "3", "crash"), "event 'crash' is not one of fresh, leave, join, leave10"),
        (("5", "3"), "a case is PARTITIONS MEMBERS EVENT, not '5 3'"),
    ],
)
def test_a_bad_case_is_one_sentence_and_exit_2(words: tuple[str, ...], wrong: str) -> None:
    with pytest.raises(CommandError) as raised:
        run("--case", *words)
    assert raised.value.returncode == 2
    assert str(raised.value).startswith(wrong)


def test_with_json_the_sentence_is_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        call_command("bench_assign", "--case", "0", "1", "fresh", "--json")
    assert raised.value.code == 2
    assert "partitions '0'" in json.loads(capsys.readouterr().out)["error"]


def test_a_file_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "nowhere" / "arrays.npz")
    with pytest.raises(CommandError, match=f"'{path}' cannot be written: No such file"):
        run("--case", "5", "3", "fresh", "--dump", path)


def test_a_dump_needs_a_case() -> None:
    with pytest.raises(CommandError, match="--dump here needs a --case"):
        run("--dump", "here")


# --- the table ------------------------------------------------------------------------------------


def test_the_rows_are_those_of_the_table() -> None:
    rows = {name: make() for name, make in work.ROWS.items()}
    assert {name: (len(w.previous), len(w.live)) for name, w in rows.items()} == {
        "w1_fresh_1k": (1_000, 100),
        "w2_fresh_100k": (100_000, 1_000),
        "w3_fresh_1m": (1_000_000, 2_000),
        "w4_leave_1m": (1_000_000, 1_999),
        "w5_join_1m": (1_000_000, 2_001),
        "w6_leave10_1m": (1_000_000, 1_800),
        "w7_mixed_fresh": (10_000, 200),
        "w7_mixed_leave": (10_000, 199),
    }
    mixed = rows["w7_mixed_fresh"]
    assert mixed.subscribed.shape == (50, 200)
    assert (mixed.subscribed.sum(axis=0) == 25).all()


def test_quick_rows_have_every_field(small: dict[str, Work]) -> None:
    found = json.loads(run("--quick", "--json"))
    assert set(found) == {"yardstick_ms", "rows"}
    assert [row["name"] for row in found["rows"]] == list(small)
    assert all(set(row) == FIELDS for row in found["rows"])
    assert all(row["moves"] == row["least_moves"] and row["most_even"] for row in found["rows"])


def test_the_text_says_what_names_and_peers_cost(
    small: dict[str, Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "aiokafka": {"assignor": "range", "best_ms": 1.5, "moves": 3, "max_minus_min": 1},
        "kafka-python": {"assignor": "range", "skipped": "cannot: too long"},
    }
    monkeypatch.setattr(peers, "beside", lambda name, chosen: answers)
    text = run()
    assert "names at the edges: " in text
    assert "aiokafka range: 1.5 ms, moves 3, max - min 1" in text
    assert "kafka-python range: cannot: too long" in text


def test_names_and_arrays_are_the_same_work() -> None:
    for chosen in (uniform(60, 7, "leave10"), work.mixed_leave(size=2)):
        dense = measure.Dense.of(measure.by_name(chosen), unknown_topics=False)
        assert (dense.previous == chosen.given).all()
        assert (dense.starts == chosen.starts).all()
        assert (dense.subscribed == chosen.subscribed).all()


def test_digits_beyond_the_sixth_are_noise() -> None:
    assert report.rounded({"a": [1.23456789, 7, None]}) == {"a": [1.23457, 7, None]}


# --- judging a result -----------------------------------------------------------------------------


def chain() -> Work:
    """Members 0, 1, 2 read topics {x}, {x, y}, {y}; x has three partitions, y one."""
    return Work(
        previous=np.array([0, 0, 0, 1], dtype=np.int32),
        live=np.arange(3),
        starts=np.array([0, 3, 4]),
        subscribed=np.array([[True, True, False], [False, True, True]]),
    )


def test_a_result_that_a_chain_would_make_more_even_is_found_out() -> None:
    uneven = np.array([0, 0, 1, 1], dtype=np.int32)
    assert not work.is_most_even(chain(), uneven)
    assert work.is_most_even(chain(), np.array([0, 0, 1, 2], dtype=np.int32))


def test_moves_are_those_of_partitions_that_had_an_owner() -> None:
    chosen = uniform(8, 4, "leave")
    nobody_keeps = Quality.of(chosen, (chosen.given + 1) % 3)
    assert (nobody_keeps.moves, nobody_keeps.least_moves) == (8, 2)


# --- peers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", peers.ADAPTERS)
def test_peers_do_the_same_work(library: str) -> None:
    adapter = peers.ADAPTERS[library]
    for chosen in (uniform(60, 7, "fresh"), uniform(60, 7, "leave"), work.mixed_leave(size=2)):
        answer = peers.owners_of(
            chosen, adapter(peers.assignor_for(chosen), peers.cluster_of(chosen), chosen)()
        )
        assert chosen.subscribed.shape[1] > answer.max() and answer.min() >= 0
        assert Quality.of(chosen, answer).max_minus_min is not None


def test_a_peer_answers_from_a_process_of_its_own() -> None:
    answers = peers.beside("w1_fresh_1k", work.ROWS["w1_fresh_1k"]())
    assert {library: a["assignor"] for library, a in answers.items()} == {
        "aiokafka": "range",
        "kafka-python": "range",
    }
    assert all(a["max_minus_min"] == 0 and a["best_ms"] > 0 for a in answers.values())


def test_what_a_peer_cannot_do_is_said_with_the_reason() -> None:
    answers = peers.beside("w4_leave_1m", uniform(1_000_000, 2_000, "leave"))
    assert all(a["skipped"].startswith("cannot: not tried") for a in answers.values())


def test_a_peer_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "CPU_MAX_S", 1)
    monkeypatch.delitem(peers.ADAPTERS, "kafka-python")
    answers = peers.beside("w7_mixed_fresh", work.mixed_fresh())
    assert answers["aiokafka"]["skipped"] == "cannot: tried, and not done after 1 s of CPU"
