"""What the demo does with its consumers: who has left for good, and who is started when asked."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from dashboard.actions import groups
from dashboard.demo import demo as demos
from dashboard.demo import options, prepare, requests, status
from dashboard.demo.demo import NOTHING, Demo
from dashboard.demo.embedded_redis import free_port
from dashboard.demo.options import Options, Refused
from dashboard.demo.parts import QUICK_SPARK, Parts
from dashboard.demo.tree import Process
from dashboard.models import AuditSource, Group, ScaleDown, ScaleDownState
from dashboard.records.audit import By
from tests.dashboard.conftest import Point


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def demo(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Demo]:
    """Consumers are programs that only wait; nothing else runs."""
    monkeypatch.setattr(options, "free_mib", lambda: 100_000)
    made = Demo(Options(data=tmp_path, port=free_port()), said.append)
    made.parts = Parts(made.options, "redis://nowhere")
    monkeypatch.setattr(
        Parts,
        "process",
        lambda self, name, layer, *arguments, **more: Process(
            name=name,
            command=("sleep", "600"),
            log=tmp_path / "log",
            layer=layer,
            **{k: v for k, v in more.items() if k in ("is_ready", "may_end")},
        ),
    )
    yield made
    made.stop()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def show(demo: Demo, *ready: str, **values: Any) -> None:
    """What the watch saw last."""
    members = {name: {"state": "ready", "owned": []} for name in ready}
    demo.status_file.write_text(json.dumps({**NOTHING, "members": members, **values}))


# --- who has left for good ------------------------------------------------------------------------


def test_consumer_that_was_told_to_leave_has_left(demo: Demo) -> None:
    consumer = demo.start_consumer(wait=False)
    show(demo, told={"consumer-1-a": consumer.started_ms})
    assert demo.has_left(consumer, 0) is True
    assert demo.has_left(consumer, -9) is True, "it died while it left: nobody wants it back"


def test_consumer_that_nobody_told_is_known_to_have_died_at_the_next_look(demo: Demo) -> None:
    consumer = demo.start_consumer(wait=False)
    show(demo, told={}, at_ms=now_ms() - 1)
    assert demo.has_left(consumer, 0) is None
    show(demo, told={}, at_ms=now_ms() + 1_000)
    assert demo.has_left(consumer, 0) is False


def test_what_a_watch_said_that_is_gone_settles_nothing(demo: Demo) -> None:
    """Consumers may have died since: redis_check began its next step too early."""
    since_ms = now_ms()
    show(demo, ready=True, learning=[], at_ms=since_ms - 1)
    assert not demo.is_settled(since_ms)
    show(demo, ready=True, learning=[], at_ms=since_ms)
    assert demo.is_settled(since_ms)


def test_consumer_that_was_killed_is_not_waited_for(demo: Demo) -> None:
    assert demo.has_left(demo.start_consumer(wait=False), -9) is False


def test_what_one_before_it_was_told_is_not_meant_for_it(demo: Demo) -> None:
    consumer = demo.start_consumer(wait=False)
    show(demo, told={"consumer-1-a": consumer.started_ms - 1}, at_ms=now_ms() + 1_000)
    assert demo.has_left(consumer, 0) is False
    show(demo, told={"consumer-11-a": consumer.started_ms + 1}, at_ms=now_ms() + 2_000)
    assert demo.has_left(consumer, 0) is False


def test_without_a_watch_a_consumer_that_ended_is_restarted_in_the_end(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = demo.start_consumer(wait=False)
    assert demo.has_left(consumer, 0) is None
    monkeypatch.setattr(demos, "FAREWELL_S", -1.0)
    assert demo.has_left(consumer, 0) is False


def test_number_of_one_that_left_is_given_again_when_its_member_is_gone(demo: Demo) -> None:
    first, second = (demo.start_consumer(wait=False) for _ in range(2))
    assert [first.name, second.name] == ["consumer-1", "consumer-2"]
    demo.tree.take_out(first)
    show(demo, "consumer-1-a", "consumer-2-b")
    third = demo.start_consumer(wait=False)
    assert third.name == "consumer-3"
    show(demo, "consumer-2-b", "consumer-3-c")
    assert demo.start_consumer(wait=False).name == "consumer-1"
    assert [c.name for c in demo.consumers] == ["consumer-2", "consumer-3", "consumer-1"]


# --- asked for ------------------------------------------------------------------------------------


def test_page_gets_one_consumer_after_the_other(demo: Demo, said: list[str]) -> None:
    requests.serve(demo.options.data)
    for _ in range(2):
        requests.ask_to_add(demo.options.data, "ann")
    demo.serve_requests()
    demo.serve_requests()
    assert len(demo.consumers) == 1, "the first one still starts"
    assert "ann asks for another consumer" in said
    show(demo, "consumer-1-a")
    demo.serve_requests()
    assert len(demo.consumers) == 2
    assert requests.waiting(demo.options.data) == []


def test_page_is_told_why_there_is_no_room(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    requests.serve(demo.options.data)
    requests.ask_to_add(demo.options.data, "ann")
    monkeypatch.setattr(options, "free_mib", lambda: 100)
    demo.serve_requests()
    (refusal,) = requests.refusals(demo.options.data)
    assert refusal.why == "another consumer needs about 900 MiB of memory and 100 MiB are free"
    assert demo.consumers == []


def test_after_the_end_nobody_serves_requests(demo: Demo) -> None:
    requests.serve(demo.options.data)
    demo.stop()
    assert not requests.is_served(demo.options.data)


# --- what the supervisor is told ------------------------------------------------------------------


@pytest.fixture
def group(point_at: Point, redis_url: str, group_name: str, db: None) -> Group:
    point_at(redis_url)
    return groups.create_group(
        group_name, stream=group_name, partitions=2, by=By("ann", AuditSource.PAGE)
    )


def told(group: Group, state: ScaleDownState, ended_at_ms: int | None, **outcomes: str) -> None:
    ScaleDown.objects.create(
        group=group,
        asked_at_ms=7,
        actor="ann",
        source=AuditSource.PAGE,
        live=3,
        members={m: {"outcome": o, "at_ms": None, "forced": False} for m, o in outcomes.items()},
        state=state,
        ended_at_ms=ended_at_ms,
    )


def test_supervisor_hears_who_was_told_and_not_called_back(group: Group) -> None:
    told(group, ScaleDownState.RUNNING, None, a="clean", b="")
    told(group, ScaleDownState.DONE, now_ms(), c="died", d="forced")
    told(group, ScaleDownState.CANCELLED, now_ms(), e="cancelled", f="clean")
    told(group, ScaleDownState.DONE, now_ms() - 2 * status.ENDED_WITHIN_MS, g="clean")
    seen = status.for_the_tree(group)
    assert set(seen["told"]) == set("abcdf")
    assert seen["scale_downs_running"] == 1
    assert abs(now_ms() - seen["at_ms"]) < 60_000


def test_group_of_the_demo_follows_what_up_is_asked_for(
    point_at: Point, redis_url: str, group_name: str, tmp_path: Path, db: None
) -> None:
    point_at(redis_url)
    wanted = {"stateful": True, "standby_replicas": 1, "trimming": True}
    with override_settings(DATA=tmp_path):
        prepare.make_group(group_name, 4, wanted, tmp_path)
        made = {file: file.read_text() for file in tmp_path.iterdir()}
        prepare.make_group(group_name, 4, wanted | {"standby_replicas": 2}, tmp_path)
    values = Group.objects.get(name=group_name).values
    assert (values.stateful, values.standby_replicas, values.partitions) == (True, 2, 4)
    assert {file.name for file in made} == {"agent_token", "producer_token"}
    assert {file: file.read_text() for file in made} == made


# --- Spark ----------------------------------------------------------------------------------------


def conf_of(consumer: Process) -> dict[str, str]:
    found: dict[str, str] = json.loads(consumer.environment["EVENKEEL_SPARK_CONF"])
    return found


def test_what_an_operator_wants_of_spark_goes_before_what_the_demo_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(Options(data=tmp_path, port=1), "redis://nowhere")
    assert conf_of(parts.consumer(1, lambda: True)) == QUICK_SPARK
    for name in QUICK_SPARK:
        given = {name: "-Xint", "spark.ui.enabled": "true"}
        monkeypatch.setenv("EVENKEEL_SPARK_CONF", json.dumps(given))
        assert conf_of(parts.consumer(1, lambda: True)) == {**QUICK_SPARK, **given}
    monkeypatch.setenv("EVENKEEL_SPARK_CONF", "[]")
    with pytest.raises(Refused, match="EVENKEEL_SPARK_CONF is not a JSON object"):
        parts.consumer(1, lambda: True)
