"""A look at a group reads of its members what they said since the last one, and targets when one
changed; what it shows is what a reading of everything shows.
"""

from typing import Any

import pytest

from assignment.scripts import dashboard_side
from assignment.types import Drain
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.live import heard, reading
from dashboard.live.connection import sync_client
from dashboard.live.following import Following
from dashboard.live.heard import NOTHING_KNOWN, Heard, Known
from dashboard.live.scripts import run
from dashboard.live.snapshot import LiveMember
from dashboard.models import Group
from tests.dashboard.agents import SECRET, FakeAgent, make_group, until
from tests.dashboard.scenes import staffed

pytestmark = pytest.mark.django_db


@pytest.fixture
def three(store: Any, group_name: str, db: None) -> list[FakeAgent]:
    return staffed(make_group(group_name, partitions=6), "a", "b", "c")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The group's keys of each reading that asked for them."""
    found: list[Any] = []
    honest = reading.read

    def kept(*what: Any, **more: Any) -> Any:
        read = honest(*what, **more)
        found.extend([read.keys] if read.keys else [])
        return read

    monkeypatch.setattr(reading, "read", kept)
    return found


def reports_in(keys: Any) -> Any:
    return keys[3]


def targets_in(keys: Any) -> Any:
    return keys[4]


def followed(agents: list[FakeAgent]) -> Following:
    """Whose last look was of a later millisecond than anything that was said."""
    found = Following(agents[0].group.name)
    said_ms = max(row.beat_at_ms or 0 for row in found.look().members)
    until(lambda: found.look().at_ms > said_ms)
    return found


def member(following: Following, name: str) -> LiveMember:
    (row,) = (row for row in following.look().members if row.id == name)
    return row


def heard_by(following: Following) -> Heard:
    assert following._state is not None
    return following._state.heard


def test_only_reports_of_members_that_beat_since_are_read(
    three: list[FakeAgent], answers: list[Any]
) -> None:
    found = followed(three)
    before = found.look().members
    answers.clear()
    three[1].beat(batch=7)
    after = found.look().members
    assert [reports_in(keys)[0] for keys in answers] == [[b"b"]]
    assert [len(targets_in(keys)) for keys in answers] == [1], "targets are as they were"
    assert [row.batch for row in after] == [None, 7, None]
    assert [row.owned for row in after] == [row.owned for row in before] == [2, 2, 2]
    answers.clear()
    until(lambda: found.look().at_ms > (after[1].beat_at_ms or 0))
    found.look()
    assert reports_in(answers[-1])[:2] == [[], []]
    assert member(found, "b").batch == 7


def test_what_is_said_in_the_millisecond_of_a_look_is_read_by_the_next_one(
    three: list[FakeAgent], answers: list[Any]
) -> None:
    """Redis' clock has no finer moments: what was said then may have come before or after."""
    found = followed(three)
    at_ms = found.look().at_ms
    sync_client().zadd(GroupKeys(found.group).beats, {"c": at_ms})
    answers.clear()
    found.look()
    assert reports_in(answers[0])[0] == [b"c"]


def test_who_left_is_forgotten_and_who_comes_again_said_nothing_yet(
    three: list[FakeAgent],
) -> None:
    found = followed(three)
    three[0].beat(batch=3)
    assert member(found, "a").batch == 3
    three[0].leave()
    assert [row.id for row in found.look().members] == ["b", "c"]
    assert sorted(heard_by(found).said) == ["b", "c"]
    three[0].join()
    assert member(found, "a").batch is None
    three[1].join()
    assert member(found, "b").owned == 2, "the same process asks again"


def test_a_process_that_stops_and_is_expected_back_says_nothing_any_more(
    store: Any, group_name: str, answers: list[Any]
) -> None:
    """It does not beat as it goes."""
    group = make_group(group_name, partitions=2)
    row = {"host": "here", "version": "1", "instance": "a"}
    run(dashboard_side.join("a", SECRET, row), group.name)
    agent = FakeAgent(group, "a")
    agent.beat(batch=3)
    found = followed([agent])
    assert member(found, "a").batch == 3
    answers.clear()
    run(dashboard_side.leave("a", SECRET, stops=True), group.name)
    stopped = member(found, "a")
    assert (stopped.state, stopped.batch) == ("stopped", None)
    assert [len(reports_in(keys)) for keys in answers] == [3], "no more than what is new"


def test_a_report_of_somebody_who_did_not_beat_is_read_by_the_next_look(
    three: list[FakeAgent],
) -> None:
    """No script writes such a one."""
    found, keys = followed(three), GroupKeys(three[0].group.name)
    three[2].beat(batch=3)
    assert member(found, "c").batch == 3
    report = sync_client().hget(keys.reports, "c")
    sync_client().hdel(keys.reports, "c")
    assert member(found, "c").batch is None
    until(lambda: found.look().at_ms > (member(found, "c").beat_at_ms or 0))
    sync_client().hset(keys.reports, "c", report)
    assert member(found, "c").batch is None
    assert heard_by(found).known == NOTHING_KNOWN
    assert member(found, "c").batch == 3


def test_targets_are_read_when_one_changed(three: list[FakeAgent], answers: list[Any]) -> None:
    found = followed(three)
    group = Group.objects.get(name=found.group)
    assert member(found, "a").targeted == 2
    answers.clear()
    three[2].leave()
    assert found.look().numbers.members == 2
    assert [len(targets_in(keys)) for keys in answers] == [2]
    coordinator.rebalance(group.name, "task-1", "worker@here")
    assert member(found, "a").targeted == 3


def test_learners_that_a_scale_down_taken_back_drops_are_not_shown(
    three: list[FakeAgent],
) -> None:
    """Its script changes targets without an epoch of theirs."""
    group, keys = three[0].group, GroupKeys(three[0].group.name)
    found = followed(three)
    row = sync_client().hget(keys.target, "b")
    assert isinstance(row, bytes)
    learning = f'"learning":["{group.stream}:0"]'.encode()
    sync_client().hset(keys.target, "b", row.replace(b'"learning":[]', learning))
    sync_client().hincrby(keys.meta, "target_epoch", 1)
    assert member(found, "b").learning == 1
    run(dashboard_side.set_drain(Drain.LEAVING, ["a"], 1), group.name)
    assert member(found, "b").learning == 1
    run(dashboard_side.set_drain(Drain.NONE, ["a"], 2), group.name)
    assert member(found, "b").learning == 0


def test_all_is_read_again_now_and_then(three: list[FakeAgent], answers: list[Any]) -> None:
    """What no script wrote is seen as well."""
    found = rewritten(three)
    heard_by(found)._whole_ms -= heard.WHOLE_MS
    found.look()
    assert heard_by(found).known == NOTHING_KNOWN
    answers.clear()
    assert member(found, "c").batch == 4
    assert [len(reports_in(keys)) for keys in answers] == [1]
    assert heard_by(found).known != NOTHING_KNOWN


def rewritten(three: list[FakeAgent]) -> Following:
    """Of which c has another report, of batch 4, that no script wrote: looks do not see it."""
    found, reports = followed(three), GroupKeys(three[0].group.name).reports
    three[2].beat(batch=3)
    assert member(found, "c").batch == 3
    until(lambda: found.look().at_ms > (member(found, "c").beat_at_ms or 0))
    stored = sync_client().hget(reports, "c")
    assert isinstance(stored, bytes) and b'"batch":3' in stored
    sync_client().hset(reports, "c", stored.replace(b'"batch":3', b'"batch":4'))
    assert member(found, "c").batch == 3
    return found


def test_whole_reads_all_again(three: list[FakeAgent]) -> None:
    found = rewritten(three)
    found.look(whole=True)
    assert member(found, "c").batch == 4


def test_a_clock_that_was_set_back_hides_nothing(
    three: list[FakeAgent], answers: list[Any]
) -> None:
    found = followed(three)
    known = heard_by(found).known
    heard_by(found).known = Known(known.since_ms + 3_600_000, known.numbers)
    answers.clear()
    three[0].beat(batch=5)
    assert member(found, "a").batch == 5
    assert [len(reports_in(keys)) for keys in answers] == [1], "all of them"


def test_where_very_many_beat_since_all_are_read(
    three: list[FakeAgent], answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = followed(three)
    monkeypatch.setattr(reading, "EVENTS_MAX", 2)
    for agent in three:
        agent.beat(batch=4)
    answers.clear()
    assert [row.batch for row in found.look().members] == [4, 4, 4]
    assert [len(reports_in(keys)) for keys in answers] == [1]
