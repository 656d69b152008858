"""load_check: what it is asked for, what is counted, and which aims are judged."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import redis

from assignment.coordinator.resting import Rest
from dashboard.coordinator.at_rest import Kept
from dashboard.evaluation.beside.speaking import NoAnswer
from dashboard.evaluation.load import check, hand_over, table
from dashboard.evaluation.load.aims import Sizes, missed, refusal_of
from dashboard.evaluation.load.check import Scene
from dashboard.evaluation.load.lines import Answered, TimedOut
from dashboard.evaluation.load.told import Latencies, Told
from dashboard.evaluation.load.watching import Gaps, Watch
from dashboard.live import queue, rests
from dashboard.management.commands import load_check
from tests.dashboard.served import until

ASKED = Sizes(members=10_000, groups=10, partitions=20_000, processes=1, seconds=30)
MET: dict[str, Any] = {
    "timeouts": 0, "errors": 0, "differing": 0, "web_us_per_beat": 150.0, "p99_ms": 100.0,
    "cpu_cores": {"web": 0.6, "worker": 0.2, "redis": 0.3, "client": 0.3}, "replaced_s": 12.9,
    "tick_gap_max_ms": 1_200, "join_steady_s": 20.0, "restarted_web_moves": 0,
    "hand_over_s": 40.0, "hand_over_tick_gap_ms": 1_300,
}  # fmt: skip


# --- what is judged


def test_a_run_that_meets_every_aim_misses_none() -> None:
    assert missed(MET, ASKED, session_s=10.0) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeouts", 1),
        ("errors", 1),
        ("differing", 1),
        ("web_us_per_beat", 200.0),
        ("web_us_per_beat", None),
        ("p99_ms", 250.0),
        ("tick_gap_max_ms", 1_500),
        ("join_steady_s", 30.1),
        ("join_steady_s", None),
        ("replaced_s", 13.0),
        ("replaced_s", None),
        ("restarted_web_moves", 1),
        ("hand_over_s", None),
        ("hand_over_tick_gap_ms", 1_500),
    ],
)
def test_an_aim_that_is_missed_is_named(name: str, value: float | None) -> None:
    asked = replace(ASKED, kill_member=True, restart_web=True, hand_over=100_000)
    (one,) = missed({**MET, name: value}, asked, session_s=10.0)
    assert one.startswith(f"{name} is {value}, should be ")


def test_what_was_not_asked_for_is_not_judged() -> None:
    nothing = {"replaced_s": None, "restarted_web_moves": None, **hand_over.NOTHING}
    assert missed({**MET, **nothing}, ASKED, session_s=10.0) == []


def test_few_members_do_not_pay_for_what_the_web_process_costs_when_idle() -> None:
    few = replace(ASKED, members=100, partitions=200)
    assert missed({**MET, "web_us_per_beat": 900.0}, few, session_s=10.0) == []


@pytest.mark.parametrize(
    ("members", "groups", "cores", "is_met"),
    [
        (0, 5_000, 0.09, True),
        (0, 5_000, 0.1, False),
        (5_000, 1_000, 0.49, True),
        (5_000, 1_000, 0.5, False),
        (10_000, 10, 1.1, True),
    ],
)
def test_many_groups_have_a_bound_of_cpu(
    members: int, groups: int, cores: float, is_met: bool
) -> None:
    asked = replace(ASKED, members=members, groups=groups, partitions=max(groups, 2 * members))
    found = {**MET, "cpu_cores": {"web": cores, "worker": 0.0, "redis": 0.0, "client": 9.0}}
    assert (missed(found, asked, session_s=10.0) == []) is is_met


@pytest.mark.parametrize(("steady_s", "is_met"), [(40.0, True), (None, False)])
def test_many_groups_may_take_as_long_as_they_need_to_be_steady(
    steady_s: float | None, is_met: bool
) -> None:
    asked = replace(ASKED, members=5_000, groups=1_000)
    cores = {"web": 0.2, "worker": 0.1, "redis": 0.1, "client": 9.0}
    found = {**MET, "cpu_cores": cores, "join_steady_s": steady_s}
    told = [] if is_met else ["join_steady_s is None, should be reached"]
    assert missed(found, asked, session_s=10.0) == told


def test_a_system_larger_than_the_aims_is_measured_and_not_judged() -> None:
    asked = replace(ASKED, members=20_000, groups=20, partitions=40_000)
    assert missed({**MET, "errors": 7}, asked, session_s=10.0) == []


def test_the_table_has_a_line_for_each_run() -> None:
    cores = {"web": 0.5, "worker": 0.1, "redis": 0.2, "database": 0.0, "client": 1.0}
    run = {
        **MET,
        "cpu_cores": cores,
        "webs": 1,
        "p50_ms": None,
        "moves": 1_200,
        "others_cores": 0.1,
    }
    heads, _, one, other = table.as_markdown(
        [{**run, "database": "SQLite"}, {**run, "database": "PostgreSQL"}]
    ).splitlines()
    assert heads.count("|") == one.count("|") == len(table.COLUMNS) + 1
    assert one.startswith("| SQLite | 1 | 0 | 0 | 150.0 | — |") and "| 1,200 |" in other


# --- what is asked for


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"partitions": 9}, "--partitions 9"),
        ({"groups": 1, "partitions": 100_001}, "--partitions 100001"),
        ({"groups": 1, "members": 1_500, "partitions": 500}, "--members 1500"),
        ({"members": 2, "processes": 3}, "--processes 3"),
        ({"processes": 1}, "--processes 1"),
        ({"members": 0, "restart_web": True}, "--members 0"),
        ({"members": 0, "hand_over": 1_000}, "--members 0"),
        ({"members": 19, "kill_member": True}, "--members 19"),
    ],
)
def test_what_cannot_be_played_is_refused_by_its_value(given: dict[str, Any], named: str) -> None:
    assert refusal_of(replace(ASKED, **given), files=9_000).startswith(named)


def test_the_aimed_sizes_can_be_played() -> None:
    for asked in (ASKED, replace(ASKED, members=5_000, groups=1_000, kill_member=True)):
        assert refusal_of(asked, files=20_000) == ""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--members", "-1"], "'-1'"),
        (["--groups", "0"], "'0'"),
        (["--seconds", "soon"], "'soon'"),
        (["--groups", "5", "--partitions", "3"], "--partitions 3"),
        (["--table", "--webs", "2"], "--table"),
    ],
)
def test_a_bad_argument_ends_with_one_sentence(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        load_check.Command().run_from_argv(["manage.py", "load_check", *arguments])
    said = capsys.readouterr().err.strip()
    assert (ended.value.code, said.count("\n")) == (3, 0)
    assert named in said


def test_partitions_are_dealt_evenly() -> None:
    dealt = replace(ASKED, groups=3, partitions=8).by_group
    assert (sorted(dealt.values()), len(dealt)) == ([2, 3, 3], 3)


# --- what is counted


def test_latencies_are_known_to_a_step() -> None:
    latencies = Latencies()
    for ms in range(100):
        latencies.add(ms / 1e3 + 1e-4)
    assert (latencies.share_ms(50), latencies.share_ms(99)) == (49.5, 98.5)
    assert Latencies().share_ms(99) is None


def test_the_longest_gap_counts_also_while_a_tick_is_awaited() -> None:
    gaps = Gaps()
    for stamp, now in ((0, 500), (1_000, 1_100), (1_000, 1_900), (2_000, 2_100)):
        gaps.saw("", stamp, now)
    assert gaps.longest_ms == 1_000
    gaps.saw("", 2_000, 3_700)
    assert gaps.longest_ms == 1_700


async def test_ticks_are_followed_on_after_a_redis_that_did_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch, silent = Watch("redis://unused", ["a"]), redis.exceptions.TimeoutError("2 s")
    answers = iter([silent, [(1, 0), b"1000", None, 0], silent, [(4, 0), b"3500", None, 0]])

    def answered(_: Any) -> list[Any]:
        answer = next(answers, None)
        if isinstance(answer, Exception):
            raise answer
        return answer or [(4, 0), b"3500", None, 0]

    monkeypatch.setattr(watch, "_answers", answered)
    with watch:
        await until(lambda: watch.gaps.longest_ms > 0)
    assert watch.gaps.longest_ms == 2_500


@pytest.fixture
def watch(store: Any, redis_url: str) -> Watch:
    return Watch(redis_url, ["a"])


def test_history_is_kept_when_none_is_wanted_and_nobody_stores_any(watch: Watch) -> None:
    assert not watch.is_at_work()
    queue.want_history({"a": False})
    assert watch.is_at_work()
    with queue.keeping_history():
        queue.take_wanted_history()
        assert watch.is_at_work()
    assert not watch.is_at_work()


@pytest.mark.parametrize("waits", [True, False])
def test_a_group_that_waits_for_others_may_wish_for_its_history_yet(
    watch: Watch, *, waits: bool
) -> None:
    rest = Rest(looked_ms=1, run_id="r", counted="")
    kept = Kept(rest=rest, digest=1, until_ms=2, since_ms=1, waits=waits)
    rests.keep("a", msgspec.json.encode(kept))
    assert watch.is_at_work() is waits


@pytest.mark.parametrize(
    ("works", "kept_s"),
    [
        ([True, True, False], 2.0),
        ([False, True, False], 2.0),  # between two groups nobody was at it
        ([True], None),
    ],
)
def test_the_window_waits_until_nothing_is_left_of_the_joining(
    monkeypatch: pytest.MonkeyPatch, works: list[bool], kept_s: float | None
) -> None:
    """A look a second, of which the last one goes on."""
    now_s = 7.0

    def happens(condition: Callable[[], bool], seconds: float) -> bool:
        nonlocal now_s
        until_s = now_s + seconds
        while not condition() and now_s < until_s:
            now_s += 1.0
        return now_s < until_s

    monkeypatch.setattr(check, "time", SimpleNamespace(monotonic=lambda: now_s))
    answers = [*works, *[works[-1]] * 1_000][::-1]
    parts: list[Any] = [
        SimpleNamespace(happens=happens),
        ASKED,
        SimpleNamespace(is_at_work=answers.pop),
        None,
    ]
    scene = Scene(*parts, found={"began_s": 7.0})
    scene.wait_for_history()
    assert scene.found["history_kept_s"] == kept_s


def test_a_group_that_rests_needs_no_look_until_it_is_awake() -> None:
    gaps = Gaps()
    for now_ms in (1_100, 5_000, 9_000):
        gaps.saw("a", 1_000, now_ms, rests=True)
    gaps.saw("a", 1_000, 9_500)
    gaps.saw("a", 9_700, 9_800)
    assert gaps.longest_ms == 700
    gaps.saw("a", 9_700, 11_000)
    assert gaps.longest_ms == 1_300


@pytest.mark.parametrize(
    ("answer", "verb", "kind"),
    [
        (TimedOut(), "heartbeat", "timeouts"),
        (NoAnswer(), "heartbeat", "errors"),
        (Answered(503, b""), "heartbeat", "errors"),
        (Answered(503, b"", 1.0), "heartbeat", "errors"),
        (Answered(503, b""), "join", "errors"),
        (Answered(503, b"", 1.0), "join", "join_waits"),
        (Answered(429, b""), "join", "join_waits"),
    ],
)
def test_what_is_no_reply_is_counted_by_its_kind(
    answer: Answered | NoAnswer, verb: str, kind: str
) -> None:
    told = Told()
    assert told.reply(answer, verb) is None
    assert told.count == {kind: 1}
