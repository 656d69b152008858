"""What all pages and sockets of a process share of a group, and for how long."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from assignment.wire import GroupKeys
from dashboard.live import following, reading, watching
from dashboard.live.connection import GroupDamaged, StoreUnavailable, sync_client
from dashboard.live.following import Following
from dashboard.live.reading import Answered, Stream
from dashboard.models import Group
from tests.dashboard.agents import make_group, until
from tests.dashboard.scenes import staffed

pytestmark = pytest.mark.django_db
DEADLINE_S = 10.0


def test_a_group_that_was_wiped_is_not_shown_and_is_read_anew_when_it_is_back(six: Group) -> None:
    staffed(six, "a")
    assert watching.snapshot(six.name).numbers.owned == 6
    kept = {key: sync_client().dump(key) for key in keys_of(six)}
    sync_client().delete(*kept)
    with pytest.raises(following.GroupNotThere):
        watching.snapshot(six.name)
    assert watching.last_snapshot(six.name) is None
    for key, value in kept.items():
        if b":lock:" not in key:
            sync_client().restore(key, 0, value)
    assert watching.snapshot(six.name).numbers.owned == 0


def keys_of(group: Group) -> list[bytes]:
    return list(sync_client().scan_iter(f"{GroupKeys(group.name).meta.removesuffix('meta')}*"))


def test_a_row_that_was_read_long_ago_is_read_again_when_it_is_shown(
    six: Group, readings: list[tuple[Any, bool]]
) -> None:
    staffed(six, "a")
    shot = watching.snapshot(six.name, whole=True)
    assert watching.rows(shot, [1, 4]) == [shot.partitions[1], shot.partitions[4]]
    sync_client().hset(GroupKeys(six.name).applied, f"{six.stream}:4", f"7 {shot.at_ms}")
    old = replace(shot, partitions=replace(shot.partitions, now_ms=shot.at_ms + 5_000))
    readings.clear()
    first, last = watching.rows(old, [1, 4])
    assert readings == [((1, 4), False)]
    assert (first.committed_at_ms, last.committed_at_ms) == (None, shot.at_ms)
    assert shot.partitions[4].committed_at_ms is None, "it is of its moment"


def test_who_asks_while_another_one_reads_shares_the_next_reading(
    six: Group, readings: list[tuple[Any, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watching.snapshot(six.name)
    readings.clear()
    honest, begun, go_on = Following.look, threading.Event(), threading.Event()

    def slow(self: Following, **how: bool) -> Any:
        begun.set()
        assert go_on.wait(DEADLINE_S)
        return honest(self, **how)

    waiting: list[float] = []
    monkeypatch.setattr(Following, "look", slow)
    monkeypatch.setattr(watching, "left_s", lambda most: waiting.append(most) or most)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(watching.snapshot, six.name)
        assert begun.wait(DEADLINE_S)
        others = [pool.submit(watching.snapshot, six.name) for _ in range(7)]
        until(lambda: len(waiting) == 8)
        go_on.set()
        shots = [future.result(DEADLINE_S) for future in (first, *others)]
    assert len(readings) == 2
    assert len({id(shot) for shot in shots[1:]}) == 1


def answers_of(*groups: Group) -> Answered:
    return watching.answers({one.name: Stream(one.stream, one.partitions) for one in groups})


def forget() -> None:
    """As if this process had looked at none."""
    for key in list(watching._groups):
        watching._drop(key)


@pytest.fixture
def three(six: Group, group_name: str, monkeypatch: pytest.MonkeyPatch) -> list[Group]:
    """Two beside it of which one reading has all, and one that is too large for that."""
    monkeypatch.setattr(following, "PARTITIONS_MAX", 6)
    sizes = {"b": 4, "c": 4, "d": 7}
    return [make_group(f"{group_name}-{name}", partitions=size) for name, size in sizes.items()]


def test_groups_that_nobody_looked_at_yet_are_read_in_one_trip_too(
    six: Group, three: list[Group], readings: list[tuple[Any, bool]]
) -> None:
    other, damaged, _ = three
    (agent,) = staffed(six, "a")
    sync_client().hset(GroupKeys(damaged.name).meta, "settings", "{")
    forget()
    answered = answers_of(six, *three)
    assert {asked.group for asked in answered} == {six.name, other.name, damaged.name}
    shots = [watching.snapshot(g.name, whole=True, answered=answered) for g in (six, other)]
    assert not readings
    assert [(shot.numbers.owned, shot.numbers.unowned) for shot in shots] == [(6, 0), (0, 4)]
    with pytest.raises(GroupDamaged):
        watching.snapshot(damaged.name, whole=True, answered=answered)
    agent.leave()
    assert watching.snapshot(six.name).numbers.unowned == 6, "the log leads on from that answer"


@pytest.mark.parametrize("said", [Stream("another", 6), Stream("", 5)])
def test_what_the_database_says_wrongly_of_a_stream_is_found(
    six: Group,
    readings: list[tuple[Any, bool]],
    said: Stream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "PARTITIONS_MAX", 6)
    staffed(six, "a")
    forget()
    answered = watching.answers({six.name: Stream(said.name or six.stream, said.partitions)})
    shot = watching.snapshot(six.name, whole=True, answered=answered)
    assert (shot.numbers.owned, len(shot.partitions)) == (6, 6)
    assert len(readings) == 1


def test_of_many_groups_what_one_trip_answered_is_not_asked_again(
    six: Group, three: list[Group], readings: list[tuple[Any, bool]]
) -> None:
    other, damaged, _ = three
    groups = [six, *three]
    staffed(six, "a")
    staffed(other, "b", "c")
    names = [group.name for group in groups]
    for name in names:
        watching.snapshot(name, whole=True)
    sync_client().hset(GroupKeys(damaged.name).meta, "settings", "{")
    sync_client().hset(GroupKeys(six.name).applied, f"{six.stream}:4", "7 1")
    answered = answers_of(*groups)
    assert {asked.group for asked in answered} == {six.name, other.name, damaged.name}
    readings.clear()
    shots = [watching.snapshot(name, whole=True, answered=answered) for name in names[:2]]
    assert not readings
    assert [shot.numbers.owned for shot in shots] == [6, other.partitions]
    assert shots[0].partitions[4].committed_at_ms == 1
    with pytest.raises(GroupDamaged):
        watching.snapshot(damaged.name, whole=True, answered=answered)
    began_s = watching._shared(six.name)._began_s
    assert began_s == -inf, "it is shared with nobody: it may have been read before they asked"


def test_of_a_cluster_without_one_of_its_nodes_the_others_groups_are_read_alone(
    six: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PARTITIONS_MAX", 6)
    watching.snapshot(six.name, whole=True)

    def away(*_: Any) -> Any:
        raise StoreUnavailable("a node does not answer")

    monkeypatch.setattr(reading, "try_each", away)
    answered = answers_of(six)
    assert watching.snapshot(six.name, whole=True, answered=answered).numbers.unowned == 6


def test_what_was_answered_of_another_moment_of_the_log_is_asked_again(
    six: Group, readings: list[tuple[Any, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PARTITIONS_MAX", 6)
    (agent,) = staffed(six, "a")
    watching.snapshot(six.name, whole=True)
    answered = answers_of(six)
    assert answered
    agent.leave()
    assert watching.snapshot(six.name).numbers.owned == 0
    readings.clear()
    assert watching.snapshot(six.name, whole=True, answered=answered).numbers.owned == 0
    assert len(readings) == 1, "of it alone, and not all anew"


def test_who_needs_progress_does_not_share_a_reading_without(six: Group) -> None:
    """Whatever is read after one has asked is shared, if it has what that one needs."""
    shared = watching._Shared(six.name)

    def asked_before(**what: bool) -> Any:
        shared._began_s = inf
        return shared.snapshot(**what)

    first = shared.snapshot(whole=False, progress=False)
    assert asked_before(whole=False, progress=False) is first
    then = asked_before(whole=False, progress=True)
    assert then is not first
    assert asked_before(whole=False, progress=False) is then
    assert asked_before(whole=True, progress=True) is not then


def test_a_group_that_was_dropped_is_not_gone_on_with(six: Group) -> None:
    watching.read_progress(six.name)
    assert watching.last_snapshot(six.name) is None
    watching.snapshot(six.name, progress=False)
    watching.read_progress(six.name)
    assert watching.last_snapshot(six.name) is not None


def test_groups_that_were_not_asked_for_longest_make_room(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "KEPT_PARTITIONS_MAX", 9)
    names = [make_group(f"{group_name}-{n}", partitions=4).name for n in range(3)]
    for name in (*names, names[1], names[0]):
        watching.snapshot(name)
    with pytest.raises(following.GroupNotThere):
        watching.snapshot("nobody")
    assert [name for name in names if watching.last_snapshot(name)] == names[:2]
    kept = [one.last.partitions for one in watching._groups.values() if one.last]
    assert watching._size == sum(map(len, kept)) == 8
