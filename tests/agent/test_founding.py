"""A group that its agents make, and make anew when Redis forgot it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.coordination.coordinator import Coordinator
from agent.coordination.founding import Founder
from agent.coordination.memory import Memory
from agent.coordination.registry import Registry
from agent.dashboard_session.requests import DashboardAway, Refusal
from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.errors import InvalidInput
from assignment.scripts.dashboard_side import configure, set_incarnation, set_mode
from assignment.scripts.group_read import Purpose, read_group
from assignment.types import Coordination, Epoch, GroupSettings
from assignment.wire import GROUP_INDEX, Join, Status, StreamKeys


@pytest.fixture
def store(redis_url: str, group_name: str) -> Iterator[GroupStore]:
    store = GroupStore.connect(redis_url, group_name)
    yield store
    store.close()


def flags(store: GroupStore, **more: Any) -> dict[str, Any]:
    return {"stream": f"s-{store.group}", "partitions": 4, **more}


def wipe(store: GroupStore) -> None:
    for key in store.door.ask("KEYS", f"*{store.group}*"):
        store.door.ask("DEL", key)


def note(event: str, **values: object) -> None:
    pass


def joins(store: GroupStore, founder: Founder, member: str = "a") -> Any:
    return Registry(store, founder.make_group, founder.why_not).ask(Join(member=member, secret="s"))


def readers(store: GroupStore) -> set[str]:
    key = StreamKeys(f"s-{store.group}").groups
    return {name.decode() for name in store.door.ask("SMEMBERS", key)}


def test_a_founder_that_is_killed_in_between_leaves_no_group_that_trimming_ignores(
    store: GroupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(settings: GroupSettings) -> None:
        raise StoreUnavailable("gone")

    founder = Founder(store, flags(store))
    with monkeypatch.context() as patched:
        patched.setattr(store, "note_reader", killed)
        with pytest.raises(DashboardAway):
            joins(store, founder)
    joins(store, founder)
    assert store.meta().settings is not None
    assert readers(store) == {store.group}
    assert store.group.encode() in store.door.ask("SMEMBERS", GROUP_INDEX)


def test_a_stream_with_another_count_is_refused(store: GroupStore) -> None:
    store.door.ask("HSET", StreamKeys(f"s-{store.group}").meta, "partitions", "2")
    with pytest.raises(InvalidInput, match="has 2 partitions, not 4"):
        Founder(store, flags(store)).check(makes=True)


def test_who_cannot_make_the_group_waits_for_one_who_can(store: GroupStore) -> None:
    Founder(store, flags(store)).make_group()
    founder = Founder(store, {})
    founder.check(makes=True)
    wipe(store)
    with pytest.raises(DashboardAway):
        joins(store, founder)


def test_agents_compute_again_for_a_group_made_anew_after_a_dashboard_did(
    store: GroupStore, tmp_path: Path
) -> None:
    founder = Founder(store, flags(store))
    founder.make_group()
    known = Epoch(1, 1)
    store.run(set_incarnation(1))
    coordinator = Coordinator(store, "a", lambda: known, Memory(str(tmp_path), "g"), note)
    assert store.run(set_mode(Epoch(1, 1), Coordination.SERVER, "ann", "test")).done
    known = Epoch(1, 2)
    coordinator.turn()
    assert not coordinator.computes
    wipe(store)
    joins(store, founder)
    store.door.ask("DEL", f"ek:{{{store.group}}}:hold")
    for _ in range(10):
        coordinator.turn()
    assert coordinator.computes
    assert store.meta().incarnation == 2


def test_of_two_founders_that_contradict_each_other_one_is_refused(store: GroupStore) -> None:
    """Both looked before either made it."""
    first, second = Founder(store, flags(store)), Founder(store, flags(store, partitions=5))
    for founder in (first, second):
        founder.check(makes=True)
    joins(store, first, "a")
    with pytest.raises(Refusal, match="--partitions 5 was given, and it is 4"):
        joins(store, second, "b")
    assert store.run(read_group(Purpose.LOOK)).members.keys() == {"a"}


def test_flags_are_compared_once_and_settings_may_change_later(store: GroupStore) -> None:
    founder = Founder(store, flags(store, strategy="averagely"))
    registry = Registry(store, founder.make_group, founder.why_not)
    join = Join(member="a", secret="s")
    assert registry.ask(join).status is Status.OK
    settings = GroupSettings(**flags(store, strategy="sticky"))
    store.run(configure(settings, "settings", rebalance_due=True))
    assert registry.ask(join).status is Status.OK


def test_a_strategy_that_was_changed_since_contradicts_nobody_and_a_partition_count_does(
    store: GroupStore,
) -> None:
    made = flags(store, strategy="averagely")
    noted: list[Any] = []
    Founder(store, made).make_group()
    with pytest.raises(InvalidInput, match="--strategy range was given, and it is averagely"):
        Founder(store, {**made, "strategy": "range"}).check(makes=True)
    settings = GroupSettings(**flags(store, strategy="sticky"))
    store.run(configure(settings, "settings", rebalance_due=True))
    founder = Founder(store, made, lambda event, **values: noted.append(values["flags"]))
    founder.check(makes=True)
    joins(store, founder)
    assert noted == ["--strategy averagely was given, and it is sticky"]
    with pytest.raises(InvalidInput, match=r": --partitions 5 was given, and it is 4$"):
        Founder(store, {**made, "partitions": 5}).check(makes=True)


def test_a_group_that_was_put_back_after_a_switch_contradicts_nobody(store: GroupStore) -> None:
    """As the dashboard does after a wipe: its mode counts from 1, under a higher incarnation."""
    settings = GroupSettings(**flags(store, strategy="sticky"))
    store.run(configure(settings, "wiped", rebalance_due=False, coordination=Coordination.SERVER))
    store.run(set_incarnation(2))
    assert (store.meta().mode_epoch, store.meta().settings_epoch) == (1, 1)
    Founder(store, flags(store, strategy="averagely")).check(makes=False)
