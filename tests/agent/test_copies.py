"""Copies of state by real threads, over a real Redis and real files: what an agent keeps and says.

The owner's side is played by the scene: it commits, and writes snapshots of a state of its own.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.copies import crew, standing
from agent.copies.crew import Copies
from agent.copies.news import CopyNews
from agent.restoring import RestoreResult
from agent.state import PartitionState, write_snapshot
from agent.state import restore as bring_up
from agent.steering import monotonic_ms
from agent.store import GroupStore, RedisDoor
from assignment.member import Wanted
from assignment.types import Claim, CopyReport, Offset, Partition, Role
from assignment.wire import pack_changes
from tests.contract.world import P0, World, offset

PATIENCE_S = 20.0
LEARNER, STANDBY, OWNER = Role.LEARNER, Role.STANDBY, Role.OWNER
MANY = tuple(Partition("flights", n) for n in range(14))


class Watched:
    """A store that counts what is asked of it, and can hold it back."""

    def __init__(self, store: GroupStore) -> None:
        self.store = store
        self.asked: Counter[str] = Counter()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        if name == "read_changelog":
            self.goes_on.wait(PATIENCE_S)
        return getattr(self.store, name)


class Scene:
    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.store = Watched(world.store)
        self.delivered: list[Any] = []
        self.fences: dict[Partition, int] = {}
        self.made: list[Copies] = []
        self.owners = folder / "owner"

    def copies(self, **options: Any) -> Copies:
        made = Copies(
            self.store,  # type: ignore[arg-type]
            self.folder / "copies",
            self.delivered.append,
            monotonic_ms,
            **options,
        )
        self.made.append(made)
        return made

    # --- the owner

    def own(self, *partitions: Partition) -> None:
        self.world.configure(partitions=len(MANY))
        self.world.join("a")
        self.world.set_incarnation(1)
        self.world.assign(a=set(partitions))
        for partition in partitions:
            self.fences[partition] = self.world.running("a", partition)

    def commit(self, partition: Partition = P0, events: int = 1, **changes: Any) -> Offset:
        low = self.world.store.committed([partition])[partition]
        high = offset(low.ms + events)
        packed = pack_changes(changes or {f"k{high.ms}": high.ms})
        answer = self.world.commit(
            partition, self.fences[partition], low, high, events=events, changes=packed
        )
        assert answer.applied
        return high

    def snapshot(self, partition: Partition = P0, *, trim: bool = True) -> Path:
        """Of everything committed, written and recorded as the owner does it."""
        state = PartitionState.open(self.owners, self.world.store.group, partition)
        bring_up(self.world.store, state, partition)
        record = write_snapshot(state, str(self.folder / "snapshots"), "g", self.fences[partition])
        state.close()
        self.world.store.snapshot(partition, record, trim=trim)
        return Path(record.url)

    def content(self, partition: Partition = P0) -> dict[str, Any]:
        """Of the copy's file, once nobody has it open."""
        state = PartitionState.open(self.folder / "copies", self.world.store.group, partition)
        with state.reading() as reading:
            found = dict(reading.items())
        state.close()
        return found

    def file(self, partition: Partition = P0) -> list[str]:
        folder = self.folder / "copies" / self.world.store.group
        return [path.name for path in folder.glob(f"{partition}.*")]

    # --- waiting

    def news(self, kind: type) -> list[Any]:
        return [one for one in list(self.delivered) if isinstance(one, kind)]

    def close(self) -> None:
        self.store.goes_on.set()
        for copies in self.made:
            copies.close()
        assert not self.news(BaseException)


def until(fact: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (value := fact()):
        assert time.monotonic() < deadline, f"did not happen: {what}"
        time.sleep(0.01)
    return value


def wanted(role: Role = STANDBY, *partitions: Partition, **more: Any) -> Wanted:
    return Wanted(copies=dict.fromkeys(partitions or (P0,), role), **more)


def caught_up(copies: Copies, partition: Partition = P0) -> CopyReport:
    """Its report once it lacks nothing."""

    def report() -> CopyReport | None:
        found = copies.reports().get(partition)
        return found if found and found.lag == 0 and not found.why else None

    return until(report, f"{partition} caught up: {copies.reports()}")


@pytest.fixture
def scene(tmp_path: Path, redis_url: str, group_name: str) -> Iterator[Scene]:
    door = RedisDoor(redis_url)
    scene = Scene(World(door, group_name), tmp_path)
    yield scene
    scene.close()
    door.close()


# --- restore and tail -----------------------------------------------------------------------------


def test_a_standby_is_restored_and_tails_what_comes(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    scene.commit(events=4, b=2)
    copies = scene.copies()
    copies.want(wanted())
    report = caught_up(copies)
    assert report == CopyReport(
        role=STANDBY, lag=0, percent=100.0, rate=report.rate, eta_ms=0, ready=True
    )
    assert scene.news(CopyNews) == [CopyNews(P0, "standby")]
    last = scene.commit(events=2, a=None, c=3)
    standing_of = copies._copies[P0]
    until(lambda: standing_of.place and standing_of.place.offset == last, "tailed")
    copies.want(Wanted())
    until(lambda: not standing_of.running and not standing_of.queued, "closed")
    assert scene.content() == {"b": 2, "c": 3}
    assert len(scene.news(CopyNews)) == 1


def test_a_copy_of_what_was_never_committed_is_ready_at_once(scene: Scene) -> None:
    scene.own(P0)
    copies = scene.copies()
    copies.want(wanted(LEARNER))
    assert caught_up(copies).ready


def test_while_nothing_changes_nothing_is_read(scene: Scene) -> None:
    scene.own(*MANY)
    copies = scene.copies()
    copies.want(wanted(STANDBY, *MANY))
    for partition in MANY:
        caught_up(copies, partition)
    before = scene.store.asked["read_changelog"]
    waits = scene.store.asked["wait_changelogs"]
    until(lambda: scene.store.asked["wait_changelogs"] >= waits + 2, "it waits")
    assert scene.store.asked["read_changelog"] == before
    scene.commit(MANY[3])
    until(lambda: scene.store.asked["read_changelog"] > before, "the changed one is read")
    assert scene.store.asked["read_changelog"] <= before + 2


# --- ready ----------------------------------------------------------------------------------------


def test_eager_each_learner_is_ready_for_itself_and_stable_all_together(scene: Scene) -> None:
    one, two = MANY[:2]
    scene.own(one, two)
    Path(scene.folder / "copies" / scene.world.store.group).mkdir(parents=True)
    blocked = scene.folder / "copies" / scene.world.store.group
    scene.commit(one)
    copies = scene.copies()
    copies.want(wanted(LEARNER, one, eager=False))
    assert caught_up(copies, one).ready
    copies.want(wanted(LEARNER, one, two, eager=False))
    assert copies.reports()[one].ready, "it said so before"
    caught_up(copies, two)
    until(lambda: copies.reports()[two].ready, "both are")
    assert blocked.is_dir()


def test_stable_nobody_is_ready_before_all_are(scene: Scene, monkeypatch: Any) -> None:
    one, two = MANY[:2]
    scene.own(one, two)
    monkeypatch.setattr(crew, "THREADS", 1)
    copies = scene.copies()
    hold_back(scene, copies, two, monkeypatch)
    copies.want(wanted(LEARNER, one, two, eager=False))
    until(lambda: copies._copies[one].caught_up, "one caught up")
    assert not copies.reports()[one].ready
    assert copies.reports()[two].percent < 100
    copies.want(wanted(LEARNER, one, two, eager=True))
    assert copies.reports()[one].ready
    assert not copies.reports()[two].ready
    copies.want(wanted(LEARNER, one, eager=False))
    assert copies.reports()[one].ready


def hold_back(scene: Scene, copies: Copies, partition: Partition, monkeypatch: Any) -> None:
    """That copy's turns get it nowhere."""
    real = crew.Work.go_on

    def go_on(work: Any, *arguments: Any) -> Any:
        if work._partition == partition:
            time.sleep(0.01)
            return None
        return real(work, *arguments)

    monkeypatch.setattr(crew.Work, "go_on", go_on)


def test_a_standby_that_caught_up_is_ready_the_moment_it_is_a_learner(scene: Scene) -> None:
    scene.own(P0)
    scene.commit()
    copies = scene.copies()
    copies.want(wanted(STANDBY))
    caught_up(copies)
    copies.want(wanted(LEARNER))
    assert copies.reports()[P0].ready
    copies.want(wanted(OWNER))
    assert (copies.reports()[P0].role, copies.reports()[P0].ready) == (LEARNER, True)


def test_what_is_given_and_was_no_learner_is_restored_early_and_not_spoken_of(
    scene: Scene,
) -> None:
    scene.own(P0)
    scene.commit()
    copies = scene.copies()
    copies.want(wanted(OWNER))
    until(lambda: copies._copies[P0].place, "restored early")
    assert copies.reports() == {}


def test_with_an_acceptable_lag_a_learner_is_ready_before_the_end(
    scene: Scene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(crew, "TURN_MS", 0)
    scene.own(P0)
    for _ in range(40):
        scene.commit(events=10)
    copies = scene.copies()
    seen: list[tuple[int, bool]] = []
    real = standing.Standing.take

    def take(self: Any, *arguments: Any) -> bool:
        news = real(self, *arguments)
        seen.append((self.lag, self.caught_up))
        return news

    monkeypatch.setattr(standing.Standing, "take", take)
    copies.want(wanted(LEARNER, acceptable_lag_records=100))
    caught_up(copies)
    assert {up for lag, up in seen if lag > 100} == {False}
    assert {up for lag, up in seen if lag <= 100} == {True}
    assert len([lag for lag, _ in seen if 0 < lag <= 100]) == 10


def test_a_consumer_without_state_is_a_ready_learner_without_a_file(scene: Scene) -> None:
    scene.own(P0)
    scene.commit()
    copies = scene.copies()
    copies.want(wanted(LEARNER, stateful=False))
    report = copies.reports()[P0]
    assert (report.ready, report.lag, report.percent) == (True, 0, 100.0)
    copies.want(wanted(OWNER, stateful=False))
    assert copies.reports()[P0].ready
    copies.want(Wanted())
    assert not scene.file() and not scene.store.asked["read_changelog"]
    copies.want(wanted(LEARNER, stateful=False))
    copies.want(wanted(LEARNER))
    assert caught_up(copies).ready and scene.file()


# --- handover -------------------------------------------------------------------------------------


def test_a_warm_learner_is_handed_over_by_its_last_entries_alone(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    copies = scene.copies()
    copies.want(wanted(LEARNER))
    caught_up(copies)
    scene.commit(b=2)
    before = scene.store.asked["read_snapshots"]
    claim = Claim(P0, 7)
    copies.order(claim)
    copies.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreResult), "handed over")
    assert scene.news(RestoreResult) == [RestoreResult(claim)]
    assert scene.store.asked["read_snapshots"] == before
    assert copies.reports() == {}
    assert scene.content() == {"a": 1, "b": 2}  # nobody has it open any more


def test_an_unready_learner_goes_on_where_it_was_when_it_is_acquired(
    scene: Scene, monkeypatch: Any
) -> None:
    scene.own(P0)
    scene.commit(events=30_000, **{f"k{n}": n for n in range(30_000)})
    for step in range(3):
        scene.commit(**{f"b{step}": step})
        scene.snapshot()
    scene.commit(last=1)
    monkeypatch.setattr(crew, "TURN_MS", 0)
    monkeypatch.setattr(crew, "THREADS", 1)
    blocks = threading.Semaphore(2)
    real = PartitionState.add

    def add(state: PartitionState, items: Any) -> None:
        assert blocks.acquire(timeout=PATIENCE_S)
        real(state, items)

    monkeypatch.setattr(PartitionState, "add", add)
    begun = count_calls(monkeypatch, PartitionState, "begin_anew")
    copies = scene.copies()
    copies.want(wanted(LEARNER))
    until(lambda: 40 < copies.reports()[P0].percent < 100, "half way")
    report = copies.reports()[P0]
    assert not report.ready and 5_000 < report.lag < 20_000
    claim = Claim(P0, 7)
    copies.order(claim)
    copies.want(Wanted(held=frozenset({P0})))
    blocks.release(100)
    until(lambda: scene.news(RestoreResult), "restored")
    assert scene.news(RestoreResult) == [RestoreResult(claim)]
    assert begun == [P0]
    assert len(scene.content()) == 30_004


def count_calls(monkeypatch: Any, owner: Any, name: str) -> list[Partition]:
    real, calls = getattr(owner, name), []

    def called(self: Any, *arguments: Any) -> Any:
        calls.append(self.partition)
        return real(self, *arguments)

    monkeypatch.setattr(owner, name, called)
    return calls


def test_what_was_committed_before_the_order_is_in_the_copy_that_is_handed_over(
    scene: Scene,
) -> None:
    """The order comes while the copy reads what it takes for the end of the changelog."""
    scene.own(P0)
    scene.commit(a=1)
    copies = scene.copies()
    scene.store.goes_on.clear()
    copies.want(wanted(LEARNER))
    until(lambda: scene.store.asked["read_changelog"], "it reads")
    scene.commit(b=2)
    copies.order(Claim(P0, 7))
    scene.store.goes_on.set()
    until(lambda: scene.news(RestoreResult), "handed over")
    assert scene.content() == {"a": 1, "b": 2}


def test_acquired_anew_meanwhile_only_the_last_claim_is_answered(scene: Scene) -> None:
    scene.own(P0)
    scene.commit()
    copies = scene.copies()
    scene.store.goes_on.clear()
    copies.order(Claim(P0, 7))
    until(lambda: scene.store.asked["read_changelog"], "it reads")
    copies.order(Claim(P0, 8))
    scene.store.goes_on.set()
    until(lambda: scene.news(RestoreResult), "restored")
    assert scene.news(RestoreResult) == [RestoreResult(Claim(P0, 8))]


def test_released_it_goes_on_as_a_standby_without_a_restore(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    copies = scene.copies()
    copies.order(Claim(P0, 7))
    copies.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreResult), "restored")
    before = scene.store.asked["read_snapshots"]
    scene.commit(b=2)
    copies.want(wanted(STANDBY))
    assert caught_up(copies).ready
    assert scene.store.asked["read_snapshots"] == before


def test_acquired_partitions_go_before_all_copies(scene: Scene, monkeypatch: Any) -> None:
    monkeypatch.setattr(crew, "THREADS", 1)
    scene.own(*MANY)
    for partition in MANY:
        scene.commit(partition)
    copies = scene.copies()
    scene.store.goes_on.clear()
    copies.want(wanted(LEARNER, *MANY[:-1]))
    until(lambda: scene.store.asked["read_changelog"], "the first is at work")
    copies.order(Claim(MANY[-1], 7))
    scene.store.goes_on.set()
    until(lambda: scene.news(RestoreResult), "restored")
    arrived = [one for one in scene.delivered if isinstance(one, RestoreResult | CopyNews)]
    assert arrived.index(RestoreResult(Claim(MANY[-1], 7))) <= 1
    for partition in MANY[:-1]:
        caught_up(copies, partition)


# --- troubles -------------------------------------------------------------------------------------


def test_a_changelog_trimmed_below_a_copy_starts_it_again_from_the_snapshot(
    scene: Scene,
) -> None:
    scene.own(P0)
    scene.commit(a=1)
    copies = scene.copies()
    copies.want(wanted(STANDBY))
    caught_up(copies)
    copies.want(Wanted())  # it stands still, and the owner goes on
    until(lambda: not copies._copies[P0].work._state, "closed")
    for step in range(3):
        scene.commit(**{f"b{step}": step})
        scene.snapshot()
    oldest = scene.world.store.read_changelog(P0, "0-0", 1).entries[0]
    assert oldest.from_offset > offset(1)
    copies.want(wanted(LEARNER))
    assert caught_up(copies).ready
    assert scene.store.asked["read_snapshots"] >= 1
    copies.order(Claim(P0, 7))
    until(lambda: scene.news(RestoreResult), "restored")
    assert scene.content() == {"a": 1, "b0": 0, "b1": 1, "b2": 2}


def test_a_broken_snapshot_is_passed_over_for_the_one_before(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    scene.commit(b=2)
    newest = scene.snapshot()
    scene.commit(c=3)
    newest.write_bytes(newest.read_bytes()[:-30])
    copies = scene.copies()
    copies.want(wanted(LEARNER))
    assert caught_up(copies).ready
    copies.order(Claim(P0, 7))
    until(lambda: scene.news(RestoreResult), "restored")
    assert scene.content() == {"a": 1, "b": 2, "c": 3}


def test_what_no_snapshot_leads_to_is_reported_and_healed_by_the_next_one(
    scene: Scene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(standing, "RETRY_MS", (50, 200))
    scene.own(P0)
    broken = []
    for step in range(3):
        scene.commit(**{f"b{step}": step})
        broken.append(scene.snapshot())
    for path in broken:
        path.unlink(missing_ok=True)
    copies = scene.copies()
    copies.want(wanted(LEARNER))
    why = until(lambda: copies.reports()[P0].why, "said")
    assert "flights:0" in why and "neither changelog nor snapshots" in why
    report = copies.reports()[P0]
    assert (report.ready, report.percent, report.lag) == (False, 0.0, 3)
    assert CopyNews(P0, "learner", why) in scene.delivered
    scene.commit()
    scene.snapshot()  # of the owner, whose own state is whole
    assert caught_up(copies).ready
    assert len([n for n in scene.news(CopyNews) if n.why]) == 1, "said once"


def test_what_was_acquired_and_cannot_be_restored_is_answered_with_the_reason(
    scene: Scene,
) -> None:
    scene.own(P0)
    for step in range(3):
        scene.commit(**{f"b{step}": step})
        scene.snapshot().unlink()
    copies = scene.copies()
    copies.order(Claim(P0, 7))
    copies.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreResult), "answered")
    assert "neither changelog nor snapshots" in scene.news(RestoreResult)[0].failure
    scene.commit()
    scene.snapshot()
    copies.order(Claim(P0, 7))
    until(lambda: len(scene.news(RestoreResult)) == 2, "asked again")
    assert scene.news(RestoreResult)[1] == RestoreResult(Claim(P0, 7))


def test_a_full_disk_is_said_tried_again_and_what_nobody_wants_goes(
    scene: Scene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(standing, "RETRY_MS", (50, 200))
    one, two = MANY[:2]
    scene.own(one, two)
    scene.commit(one)
    copies = scene.copies()
    copies.want(wanted(STANDBY, one))
    caught_up(copies, one)
    copies.want(Wanted())
    scene.commit(two, **{f"k{n}": "x" * 1_000 for n in range(2_000)})
    monkeypatch.setattr("agent.state.partition.MAP_BYTES", 2**18)
    copies.want(wanted(LEARNER, two))
    why = until(lambda: copies.reports()[two].why, "said")
    assert "flights:1" in why and not copies.reports()[two].ready
    until(lambda: not scene.file(one), "made room")
    monkeypatch.setattr("agent.state.partition.MAP_BYTES", 2**30)
    report = caught_up(copies, two)
    assert (report.ready, report.why) == (True, "")


def test_a_redis_that_lost_writes_makes_the_copy_start_again(
    scene: Scene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(crew, "CHECK_EVERY_MS", 50)
    scene.own(P0)
    scene.commit(a=1)
    first = scene.world.store.read_changelog(P0, "0-0", 1).entries[0].entry_id
    scene.commit(a=2, b=2)
    copies = scene.copies()
    copies.want(wanted(STANDBY))
    caught_up(copies)
    keys, door = scene.world.keys, scene.world.door
    door.ask("XDEL", keys.changelog(P0), copies._copies[P0].place.changelog_id)
    door.ask("HSET", keys.offsets, str(P0), "1-0")
    door.ask("HSET", keys.applied, str(P0), "1 1")
    place = until(
        lambda: (p := copies._copies[P0].place) and p.offset == offset(1) and p, "started again"
    )
    assert place.changelog_id == first
    assert len(scene.news(CopyNews)) == 2, "it caught up twice"


# --- many, and none -------------------------------------------------------------------------------


def test_large_ones_do_not_keep_small_ones_waiting(scene: Scene, monkeypatch: Any) -> None:
    """More large copies than threads: all others have their turns meanwhile."""
    monkeypatch.setattr(crew, "TURN_MS", 0)
    scene.own(*MANY)
    large, small = MANY[:3], MANY[3:]
    for partition in large:
        for step in range(60):
            scene.commit(partition, **{f"k{step}-{n}": n for n in range(300)})
    for partition in small:
        scene.commit(partition)
    copies = scene.copies()
    copies.want(wanted(STANDBY, *MANY))
    for partition in MANY:
        caught_up(copies, partition)
    order = [news.partition for news in scene.news(CopyNews)]
    assert set(order[-3:]) == set(large)


def test_of_very_many_copies_few_files_are_open_at_once(scene: Scene, monkeypatch: Any) -> None:
    monkeypatch.setattr(crew, "OPEN_MAX", 4)
    scene.own(*MANY)
    copies = scene.copies()
    copies.want(wanted(STANDBY, *MANY))
    for partition in MANY:
        caught_up(copies, partition)
    until(lambda: not any(s.work._state for s in copies._copies.values()), "closed")
    last = scene.commit(MANY[5])
    standing_of = copies._copies[MANY[5]]
    until(lambda: standing_of.place and standing_of.place.offset == last, "tailed all the same")


def test_unwanted_copies_are_kept_for_a_while_and_then_removed(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    copies = scene.copies(keep_unwanted_ms=300)
    copies.want(wanted(STANDBY))
    caught_up(copies)
    copies.want(Wanted())
    assert scene.file()
    copies.want(wanted(STANDBY))
    caught_up(copies)
    time.sleep(0.5)
    assert scene.file(), "wanted again"
    copies.want(Wanted())
    until(lambda: not scene.file(), "removed")
    until(lambda: not copies._copies, "forgotten")
    copies.want(wanted(STANDBY))
    assert caught_up(copies).ready


def test_what_is_held_is_never_removed(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    copies = scene.copies(keep_unwanted_ms=100)
    copies.order(Claim(P0, 7))
    copies.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreResult), "restored")
    time.sleep(0.4)
    assert scene.file()
    copies.want(Wanted())
    until(lambda: not scene.file(), "released and unwanted")


def test_what_an_agent_before_left_behind_goes_too_unless_it_is_wanted(scene: Scene) -> None:
    scene.own(*MANY[:2])
    folder = scene.folder / "copies"
    for partition in MANY[:2]:
        scene.commit(partition)
        state = PartitionState.open(folder, scene.world.store.group, partition)
        bring_up(scene.world.store, state, partition)
        state.close()
    copies = scene.copies(keep_unwanted_ms=400)
    copies.find_left_over()
    copies.want(wanted(STANDBY, MANY[0]))
    caught_up(copies, MANY[0])
    until(lambda: not scene.file(MANY[1]), "removed")
    assert scene.file(MANY[0])


def test_without_anything_to_do_there_is_no_thread(scene: Scene) -> None:
    copies = scene.copies()
    copies.find_left_over()
    copies.want(Wanted())
    assert copies._workers == [] and copies._watcher is None
