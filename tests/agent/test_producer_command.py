"""`evenkeel-producer`: JSON lines and the replay of flights, by their flags and exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.producer import flights
from agent.producer.__main__ import MALFORMED, OK, REDIS, WRONG_USE, main
from agent.producer.lines import LINE_BYTES_MAX
from agent.producer.stopping import Stopped
from agent.store.door import RedisDoor
from assignment.wire import StreamKeys
from dashboard.demo.embedded_redis import free_port
from dashboard.evaluation import flights_check
from dashboard.evaluation.inspecting import ids_of

DEADLINE_S = 60.0
Run = Callable[..., int]


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = [(n, signal.getsignal(n)) for n in (signal.SIGTERM, signal.SIGINT)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.fixture
def run(redis_url: str, group_name: str) -> Run:
    def command(*arguments: str, partitions: int | None = 2) -> int:
        made = () if partitions is None else ("--partitions", str(partitions))
        which = arguments[:1] if arguments[:1] == ("flights",) else ()
        rest = arguments[len(which) :]
        return main([*which, "--stream", group_name, "--redis-url", redis_url, *made, *rest])

    return command


def ids_in(redis_url: str, stream: str, partitions: int = 2) -> dict[int, list[int]]:
    door = RedisDoor(redis_url)
    keys = StreamKeys(stream)
    found = {}
    for number in range(partitions):
        raw = door.ask("XRANGE", keys.entries(number), "-", "+")
        pairs = [dict(zip(f[::2], f[1::2], strict=True)) for _, f in raw]
        found[number] = [event for fields in pairs for event in ids_of(fields)]
    door.close()
    return found


def all_ids(redis_url: str, stream: str, partitions: int = 2) -> list[int]:
    return sorted(i for ids in ids_in(redis_url, stream, partitions).values() for i in ids)


# --- lines of JSON --------------------------------------------------------------------------------


def test_malformed_lines_are_left_out_and_told(
    run: Run, redis_url: str, group_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        '{"id": 1, "key": "a"}',
        '{"id": 2,',
        "",
        "[3]",
        '{"id": 4}',
        '{"id": 5, "key": "' + "x" * LINE_BYTES_MAX + '"}',
        '{"id": 6, "key": 17}',
    ]
    (tmp_path / "in").write_text("\n".join(lines))
    letters, told = tmp_path / "dead", tmp_path / "told"
    code = run("--file", str(tmp_path / "in"), "--dead", str(letters), "--acknowledged", str(told))
    assert code == MALFORMED
    assert all_ids(redis_url, group_name) == [1, 6]
    dead = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [letter["line"] for letter in dead] == [2, 4, 5, 6]
    assert sorted(told.read_text().split()) == ["1", "7"]
    said = capsys.readouterr().err
    assert "line 2 is malformed and left out: not JSON" in said
    assert "2 events, 4 malformed lines left out" in said


def test_a_file_given_again_under_its_producer_id_goes_on(
    run: Run, redis_url: str, group_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "in"
    options = ("--file", str(file), "--producer-id", "load", "--key", "id")
    file.write_text("".join(f'{{"id": {n}}}\n' for n in range(10)))
    assert run(*options) == OK
    file.write_text("".join(f'{{"id": {n}}}\n' for n in range(15)))
    assert run(*options) == OK
    assert all_ids(redis_url, group_name) == list(range(15))


def test_a_stream_that_is_not_there_is_named(
    run: Run, group_name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run("--file", str(tmp_path / "none"), partitions=2) == WRONG_USE
    assert "cannot be read" in capsys.readouterr().err
    (tmp_path / "in").write_text("")
    assert run("--file", str(tmp_path / "in"), partitions=None) == WRONG_USE
    assert f"stream '{group_name}' is not there" in capsys.readouterr().err


def test_standard_input_is_sent_as_it_comes_and_sigterm_ends_in_order(
    redis_url: str, group_name: str
) -> None:
    with started(redis_url, "--stream", group_name, "--partitions", "2") as process:
        assert process.stdin is not None
        process.stdin.write(b'{"id": 1, "key": "a"}\n{"id": 2, "key": "b"}\n')
        process.stdin.flush()
        wait_for(lambda: all_ids(redis_url, group_name) == [1, 2])
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == OK
        assert process.stderr is not None
        assert b"asked to end at line 2: 2 events" in process.stderr.read()


# --- flights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["arrow", "json"])
def test_flights_come_in_the_order_of_pipeline_md(
    form: str, run: Run, redis_url: str, group_name: str, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    options = ("flights", "--form", form, "--speed", "0", "--acknowledged", str(told))
    assert run(*options, "--limit", "300") == OK
    assert run(*options, "--limit", "500") == OK
    assert run(*options, "--limit", "500") == OK
    found = ids_in(redis_url, group_name)
    assert sorted(i for ids in found.values() for i in ids) == list(range(500))
    assert all(ids == sorted(ids) for ids in found.values())
    assert sorted(map(int, told.read_text().split())) == list(range(500))


def test_flights_are_those_of_the_second_opinion() -> None:
    table = flights.read_flights()
    order = flights_check.event_order(table.num_rows)
    every = list(flights.flights(table, 0, 5_000))
    assert [(one.event["id"], one.key) for one in every] == order[:5_000]
    assert [one.minute for one in every] == sorted(one.minute for one in every)
    last = next(flights.flights(table, table.num_rows - 1, table.num_rows))
    assert (last.event["id"], last.key) == order[-1]
    assert every[0].event["at_ms"] == 1_357_035_300_000  # 05:15 in New York, 1 January 2013
    assert every[0].event["dep_time"] == 517
    cancelled = next(one.event for one in every if one.event["dep_time"] is None)
    assert cancelled["arr_delay"] is None


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Taker:
    """What replay needs of a producer."""

    gone = 0

    def __init__(self, clock: Clock, resumes_after: int = -1) -> None:
        self.clock, self.after = clock, resumes_after
        self.sent: list[tuple[int, float]] = []

    def resumes_after(self) -> int:
        return self.after

    def send(self, key: str, event: dict[str, Any], event_id: int) -> bool:
        self.sent.append((event_id, self.clock.now))
        return True

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(("speed", "resumes_after"), [(60.0, -1), (3_600.0, -1), (60.0, 99)])
def test_the_replay_keeps_its_pace(speed: float, resumes_after: int) -> None:
    clock = Clock()
    taker: Any = Taker(clock, resumes_after)
    table = flights.read_flights()
    flights.replay(
        taker, table, speed=speed, limit=200, sleep=clock.sleep, clock=clock, say=lambda _: None
    )
    every = list(flights.flights(table, 0, 200))
    first = every[resumes_after + 1].minute
    for event_id, at in taker.sent:
        minutes = max(0, every[event_id].minute - first)
        assert at == pytest.approx(100 + minutes * 60 / speed)


def test_a_replay_that_waits_for_the_next_flight_says_where_it_is() -> None:
    clock, said = Clock(), []
    taker: Any = Taker(clock)
    table = flights.read_flights()
    flights.replay(
        taker, table, speed=1.0, limit=20, sleep=clock.sleep, clock=clock, say=said.append
    )
    waited_s = taker.sent[-1][1] - 100
    assert len(said) - 1 >= waited_s / (flights.PROGRESS_S + flights.SLEEP_MAX_S) > 10


def test_a_replay_can_be_stopped_at_any_speed() -> None:
    def stop(seconds: float) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        flights.replay(
            Taker(Clock()),  # type: ignore[arg-type]
            flights.read_flights(),
            speed=0,
            limit=None,
            sleep=stop,
            say=lambda _: None,
        )


def test_sigterm_stores_what_was_read_and_a_second_start_goes_on(
    redis_url: str, group_name: str, run: Run
) -> None:
    arguments = ("flights", "--stream", group_name, "--partitions", "2", "--speed", "36000")
    with started(redis_url, *arguments) as process:
        wait_for(lambda: len(all_ids(redis_url, group_name)) > 20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == OK
    stored = all_ids(redis_url, group_name)
    assert stored == list(range(len(stored)))
    assert run("flights", "--speed", "0", "--limit", str(len(stored) + 50)) == OK
    assert all_ids(redis_url, group_name) == list(range(len(stored) + 50))


@pytest.mark.parametrize("arguments", [("--speed", "-1"), ("--limit", "-1"), ("--speed", "nan")])
def test_a_wrong_number_is_refused(arguments: tuple[str, str], run: Run) -> None:
    with pytest.raises(SystemExit) as ended:
        run("flights", *arguments)
    assert ended.value.code == WRONG_USE


def test_a_redis_that_is_not_there_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("agent.producer.__main__.GIVE_UP_S", 0)
    (tmp_path / "in").write_text("")
    url = f"redis://127.0.0.1:{free_port()}"
    assert main(["--stream", "s", "--redis-url", url, "--file", str(tmp_path / "in")]) == REDIS
    assert "does not answer" in capsys.readouterr().err


# --- processes ------------------------------------------------------------------------------------


class started:
    """The command as a process of its own; killed at the end if it is still there."""

    def __init__(self, redis_url: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agent.producer", *arguments],
            env={**os.environ, "EVENKEEL_REDIS_URL": redis_url},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stderr):
            if pipe is not None:
                pipe.close()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
