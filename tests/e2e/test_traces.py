"""The worked traces T1 to T9 (learners.md) on real agents, a real coordinator and a real Redis.

Rounds are read from history. Which partition moves is free in places: then the planner's documented
tie-breaks decide (the donor is the most loaded member, smallest id first, and gives its lowest).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.actions import scale_down
from dashboard.demo.embedded_redis import EmbeddedRedis, wheel_binary
from dashboard.models import AuditSource, ScaleDown
from dashboard.records.audit import By
from tests.e2e.system import Fleet, System, running, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
Start = Callable[..., Fleet]
STABLE = {"S1": "a12", "S2": "a34", "S3": "a5"}


@pytest.fixture(scope="module")
def system(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One for the whole file: it finds each test's group, and after the test none."""
    folder = tmp_path_factory.mktemp("system")
    redis = EmbeddedRedis(folder / "redis", binary=wheel_binary())
    redis.start()
    try:
        with running(folder, redis) as started:
            yield started
    finally:
        redis.stop()


@pytest.fixture
def fleet(system: System, group_name: str, tmp_path: Path) -> Iterator[Start]:
    (system.folder / "audit_anchors").unlink(missing_ok=True)  # of the audit that was before
    made: list[Fleet] = []

    def start(**settings: Any) -> Fleet:
        made.append(Fleet(system, f"{group_name}{len(made)}", tmp_path, settings))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def stable(fleet: Start) -> Fleet:
    """S1 1 2, S2 3 4, S3 5, and nobody else can restore a partition for now."""
    made = fleet()
    made.settled()
    made.append(1, 2, 3, 4, 5)
    made.hide(1, 2, 3, 4, 5)
    return made


def tell(fleet: Fleet, *names: str, **more: Any) -> ScaleDown:
    return scale_down.start(
        fleet.group,
        members=[fleet.ids[name] for name in names],
        by=By("ann", AuditSource.COMMAND),
        **more,
    )


def test_t1_newcomers_learn_and_take_over_one_by_one(stable: Fleet) -> None:
    fences = stable.fences()
    stable.start("S4", "S5")
    stable.ready("S4")
    stable.until_rounds(STABLE, fourth := {**STABLE, "S4": "l1"})
    stable.ready("S5")
    stable.until_rounds(STABLE, fourth, both := {**fourth, "S5": "l3"})
    stable.show(1)
    first = {**STABLE, "S1": "a2", "S4": "a1", "S5": "l3"}
    stable.until_rounds(STABLE, fourth, both, first)
    stable.show(3)
    last = {"S1": "a2", "S2": "a4", "S3": "a5", "S4": "a1", "S5": "a3"}
    stable.until_rounds(STABLE, fourth, both, first, last)
    stable.until_state(**last)
    unmoved(stable, fences, 2, 4, 5)


def test_t2_from_the_ground(fleet: Start) -> None:
    group = fleet(stateful=True)
    group.start("S1", "S2", "S3")
    group.ready("S1")
    group.until_state(S1="a12345")
    group.append(1, 2, 3, 4, 5)
    group.hide(1, 2, 3, 4, 5)
    group.ready("S2", "S3")
    until(lambda: sum(map(len, learners(group).values())) == 3, "three learners")
    assert sorted(map(len, learners(group).values())) == [1, 2]
    assert group.owned()["S1"] == {1, 2, 3, 4, 5}
    group.show(1, 2, 3, 4, 5)
    until(lambda: sorted(map(len, group.owned().values())) == [1, 2, 2], "2, 2 and 1")
    until(lambda: learners(group) == {}, "the last round is on record")
    assert len(group.owned()["S1"]) == 2, "its three others went, no more"


def learners(group: Fleet) -> dict[str, str]:
    """Of the last round."""
    texts = {name: text.partition("l")[2] for name, text in group.rounds()[-1].items()}
    return {name: text for name, text in texts.items() if text}


TOLD = {"S1": "a12 l3", "S2": "a34", "S3": "a5 l4"}
HALF = {"S1": "a12 l3", "S2": "a3", "S3": "a45"}
DRAINED = {"S1": "a123", "S3": "a45"}


def unmoved(fleet: Fleet, before: dict[int, int], *names: int) -> None:
    """These partitions have the owners that they had."""
    after = fleet.fences()
    assert {n: after[n] for n in names} == {n: before[n] for n in names}


def test_t3_a_member_that_leaves_is_relieved_and_ends(stable: Fleet) -> None:
    fences = stable.fences()
    tell(stable, "S2")
    stable.until_rounds(STABLE, TOLD)
    stable.show(4)
    stable.until_rounds(STABLE, TOLD, HALF)
    assert stable.agents["S2"].process.poll() is None
    stable.show(3)
    assert stable.exit_code("S2") == 0
    stable.until_rounds(STABLE, TOLD, HALF, DRAINED)
    stable.until_state(**DRAINED)
    until(lambda: stable.outcomes() == {"S2": "clean"}, "noted")
    unmoved(stable, fences, 1, 2, 5)


def test_t4_coordinator_and_an_owner_die_while_another_learns(
    stable: Fleet, system: System
) -> None:
    fences = stable.fences()
    stable.start("S4")
    stable.ready("S4")
    stable.until_rounds(STABLE, learning := {**STABLE, "S4": "l1"})
    system.kill("web", "worker", "beat")
    stable.kill("S1")
    system.start()
    system.wait_ready()
    last = {"S2": "a34", "S3": "a25", "S4": "a1"}
    stable.until_rounds(STABLE, learning, last)
    assert "S4" not in stable.state(), "it is restoring"
    stable.show(1, 2)
    stable.until_state(**last)
    assert stable.rounds() == [STABLE, learning, last]
    unmoved(stable, fences, 3, 4, 5)


@pytest.mark.parametrize("eager", [True, False])
def test_t5_eager_hands_over_one_by_one_and_stable_all_together(fleet: Start, eager: bool) -> None:
    group = fleet(partitions=4, stateful=True, learn_partial_rebalance=eager)
    group.start("S1", "S2")
    group.ready("S2")
    group.until_state(S2="a1234")
    group.append(1, 2, 3, 4)
    group.hide(1, 2, 3, 4)
    group.ready("S1")
    first = [{"S2": "a1234"}, {"S1": "l12", "S2": "a1234"}]
    group.until_rounds(*first)
    group.show(1)
    until(lambda: group.agents["S1"].events("replica caught up"), "the fast one")
    if eager:
        group.until_rounds(*first, halfway := {"S1": "a1 l2", "S2": "a234"})
        first.append(halfway)
    group.show(2)
    group.until_rounds(*first, {"S1": "a12", "S2": "a34"})


def test_t6_the_limit_runs_out_before_anyone_is_ready(stable: Fleet) -> None:
    fences = stable.fences()
    tell(stable, "S2", timeout_ms=2_000)
    stable.until_rounds(STABLE, TOLD)
    assert stable.exit_code("S2") == 0
    stable.until_rounds(STABLE, TOLD, DRAINED)
    assert stable.state() == {"S1": "a12", "S3": "a5"}, "3 and 4 are restoring"
    stable.show(3, 4)
    stable.until_state(**DRAINED)
    until(lambda: stable.outcomes() == {"S2": "forced"}, "noted")
    unmoved(stable, fences, 1, 2, 5)


def test_t7_standbys_take_over_though_nobody_else_could_restore(fleet: Start) -> None:
    group = fleet()
    group.settled({"standby_replicas": 1})
    group.append(1, 2, 3, 4, 5)
    until(lambda: {3, 4} <= group.replicas("S1") | group.replicas("S3"), "standbys of what S2 has")
    before = {name: group.replicas(name) & {3, 4} for name in ("S1", "S3")}
    until(
        lambda: all(group.is_replicated(name, *had) for name, had in before.items()), "they kept up"
    )
    group.hide(1, 2, 3, 4, 5)
    tell(group, "S2")
    assert group.exit_code("S2") == 0
    until(lambda: set().union(*group.owned().values()) == {1, 2, 3, 4, 5}, "all run")
    assert group.owned() == {"S1": {1, 2} | before["S1"], "S2": set(), "S3": {5} | before["S3"]}
    for name in ("S1", "S3"):
        assert not group.agents[name].events("restore failed")


def test_t8_the_leaver_crashes(stable: Fleet) -> None:
    fences = stable.fences()
    tell(stable, "S2")
    stable.until_rounds(STABLE, TOLD)
    stable.kill("S2")
    stable.until_rounds(STABLE, TOLD, DRAINED)
    stable.show(3, 4)
    stable.until_state(**DRAINED)
    until(lambda: stable.outcomes() == {"S2": "died"}, "noted")
    unmoved(stable, fences, 1, 2, 5)


def test_t9_one_that_stays_crashes(stable: Fleet) -> None:
    fences = stable.fences()
    tell(stable, "S2")
    stable.until_rounds(STABLE, TOLD)
    stable.kill("S1")
    stable.until_rounds(STABLE, TOLD, {"S2": "a34", "S3": "a125 l34"})
    stable.show(1, 2)
    until(lambda: stable.owned()["S3"] == {1, 2, 5}, "what had no owner runs")
    unmoved(stable, fences, 3, 4, 5)
    stable.show(3, 4)
    assert stable.exit_code("S2") == 0
    stable.until_state(S3="a12345")
    until(lambda: stable.outcomes() == {"S2": "clean"}, "noted")


def test_a_broken_snapshot_is_said_and_nobody_takes_over_from_it(stable: Fleet) -> None:
    """The owner goes on meanwhile; once there is a good one, everything goes its way."""
    stable.spoil(3, 4)
    tell(stable, "S2")
    stable.until_rounds(STABLE, TOLD)
    until(lambda: set(stable.troubles("S1")) == {3} and set(stable.troubles("S3")) == {4}, "said")
    assert "neither changelog nor snapshots" in stable.troubles("S1")[3]
    stable.append(3, 4)
    stable.until_state(**TOLD)
    stable.show(3, 4)
    assert stable.exit_code("S2") == 0
    stable.until_state(**DRAINED)
    until(
        lambda: stable.is_replicated("S1", 3) and stable.is_replicated("S3", 4),
        "from the good ones",
    )


# --- restarts in the middle of a scale-down -------------------------------------------------------


@pytest.mark.parametrize(
    "moments",
    [
        (("worker",), ("web", "beat"), ("web", "worker", "beat")),
        (("web", "beat"), ("worker",), ("beat",)),
    ],
    ids=["worker-first", "web-first"],
)
def test_a_scale_down_goes_on_whoever_of_the_dashboard_dies(
    stable: Fleet, system: System, moments: tuple[tuple[str, ...], ...]
) -> None:
    """Killed right after the members were told, while they learn, and half way."""
    fences = stable.fences()
    told, learning, half_way = moments
    tell(stable, "S2")
    restart(system, *told)
    stable.until_rounds(STABLE, TOLD)
    restart(system, *learning)
    assert stable.rounds() == [STABLE, TOLD]
    stable.show(4)
    stable.until_rounds(STABLE, TOLD, HALF)
    restart(system, *half_way)
    stable.show(3)
    assert stable.exit_code("S2") == 0
    stable.until_rounds(STABLE, TOLD, HALF, DRAINED)
    stable.until_state(**DRAINED)
    until(lambda: stable.outcomes() == {"S2": "clean"}, "noted")
    unmoved(stable, fences, 1, 2, 5)


def restart(system: System, *names: str) -> None:
    system.kill(*names)
    system.start(*names)
    system.wait_ready()
