"""What holds for every strategy, whoever the members are and whatever they say they own."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.strategies import NAMES, get
from assignment.strategies.given import Assigned, StrategyInput
from assignment.types import Member, Partition

TOPICS = ("x", "y", "z")
ZONES = ("r1", "r2", "r3")
PER_TOPIC = ("averagely", "circle", "join_order", "range", "zone")  # each topic by itself is even


@dataclass(frozen=True)
class Asked:
    """A strategy with parameters that fit the problem."""

    name: str
    parameters: dict[str, Any]
    problem: StrategyInput

    def run(self, problem: StrategyInput | None = None) -> Assigned:
        return get(self.name, self.parameters)(problem or self.problem)


def every_partition(problem: StrategyInput) -> list[Partition]:
    return [Partition(t, n) for t in sorted(problem.topics) for n in range(problem.topics[t])]


def reads(member: Member, topic: str) -> bool:
    return member.subscription is None or topic in member.subscription


def is_read(problem: StrategyInput, partition: Partition) -> bool:
    return any(reads(m, partition.stream) for m in problem.members)


@st.composite
def problems(draw: st.DrawFn, members_max: int = 7) -> StrategyInput:
    topics = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), max_size=3))
    claims = st.dictionaries(
        st.builds(Partition, st.sampled_from((*TOPICS, "gone")), st.integers(0, 14)),
        st.integers(0, 3),
        max_size=6,
    )
    members = st.builds(
        Member,
        member_id=st.text("abc-ü", min_size=1, max_size=3),
        joined_at_ms=st.integers(0, 3),
        instance_id=st.none() | st.sampled_from(("", "i1", "i2", "i3")),
        zone=st.sampled_from(("", *ZONES)),
        capacity=st.sampled_from((1.0, 1.0, 0.5, 3.0)),
        subscription=st.none() | st.frozensets(st.sampled_from(sorted(topics) or ["x"])),
        owned=claims,
    )
    known = st.lists(members, max_size=members_max, unique_by=lambda m: m.member_id)
    found = tuple(draw(known))
    if not topics:
        found = tuple(replace(m, subscription=None) for m in found)
    return StrategyInput(members=found, topics=topics)


def zones_of(problem: StrategyInput, random: Random) -> dict[str, list[list[Any]]]:
    """Some partitions are in no zone."""
    zones: dict[str, list[list[Any]]] = {zone: [] for zone in ZONES}
    for p in every_partition(problem):
        if zone := random.choice(("", *ZONES)):
            zones[zone].append(list(p))
    return zones


def parameters_of(name: str, problem: StrategyInput, random: Random) -> dict[str, Any]:
    if name == "config":
        owned: dict[str, list[list[Any]]] = {m.member_id: [] for m in problem.members}
        for p in every_partition(problem):
            readers = [m.member_id for m in problem.members if reads(m, p.stream)]
            if readers:
                owned[random.choice(readers)].append(list(p))
        return {"config_map": owned}
    if name == "zone":
        allowed = [z for z in ZONES if random.random() < 0.7]
        return {"allowed_zones": allowed, "partition_zones": zones_of(problem, random)}
    if name == "zone_nearby":
        inner = random.choice(("averagely", "sticky", "consistent_hash", "weighted_sticky"))
        return {"inner": inner, "partition_zones": zones_of(problem, random)}
    if name == "weighted_sticky":
        weights = {str(p): random.choice((0, 1, 2, 0.25, 7.1)) for p in every_partition(problem)}
        return {"weights": {p: w for p, w in weights.items() if random.random() < 0.8}}
    return {}


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    name = draw(st.sampled_from(NAMES))
    problem = draw(problems())
    random = draw(st.randoms(use_true_random=False))
    return Asked(name, parameters_of(name, problem, random), problem)


def given_out(asked: Asked) -> set[Partition]:
    """Partitions that must have an owner: those of read topics; with `zone`, of allowed zones."""
    wanted = {p for p in every_partition(asked.problem) if is_read(asked.problem, p)}
    if asked.name != "zone":
        return wanted
    zones = asked.parameters["partition_zones"]
    return wanted & {
        Partition(*p) for zone in asked.parameters["allowed_zones"] for p in zones[zone]
    }


def after(asked: Asked, assigned: Assigned) -> StrategyInput:
    """The same group once the assignment has taken effect."""
    members = (replace(m, owned=dict.fromkeys(assigned[m.member_id], 9)) for m in members_of(asked))
    return StrategyInput(members=tuple(members), topics=asked.problem.topics)


def members_of(asked: Asked) -> Iterator[Member]:
    yield from asked.problem.members


@over(asked())
def test_every_partition_has_one_owner_who_reads_it(asked: Asked) -> None:
    assigned = asked.run()
    owned = Counter(p for own in assigned.values() for p in own)
    assert set(owned) == given_out(asked)
    assert not owned or max(owned.values()) == 1
    for member in asked.problem.members:
        own = assigned[member.member_id]
        assert list(own) == sorted(own)
        assert all(reads(member, p.stream) for p in own)


@over(asked())
def test_exactly_the_members_are_in_the_answer(asked: Asked) -> None:
    assert sorted(asked.run()) == sorted(m.member_id for m in asked.problem.members)


@over(asked(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(asked: Asked, random: Random) -> None:
    problem = asked.problem
    shuffled = StrategyInput(
        members=tuple(
            replace(m, owned=dict(random.sample(list(m.owned.items()), len(m.owned))))
            for m in random.sample(problem.members, len(problem.members))
        ),
        topics=dict(random.sample(list(problem.topics.items()), len(problem.topics))),
    )
    assert asked.run(shuffled) == asked.run()


@over(asked())
def test_a_second_run_changes_nothing(asked: Asked) -> None:
    assigned = asked.run()
    assert asked.run(after(asked, assigned)) == assigned


@over(asked(), st.data())
def test_after_a_crash_the_rest_takes_over_and_settles(asked: Asked, data: st.DataObject) -> None:
    """Whoever crashes: one round gives each partition one live owner, the next changes nothing."""
    if not asked.problem.members or asked.name == "config":
        return  # a fixed map names the dead member, so it is refused until the map changes
    before = after(asked, asked.run())
    dead = data.draw(st.sampled_from(before.members))
    rest = tuple(m for m in before.members if m is not dead)
    left = replace(asked, problem=StrategyInput(members=rest, topics=before.topics))
    assigned = left.run()
    assert {p for own in assigned.values() for p in own} == given_out(left)
    assert left.run(after(left, assigned)) == assigned


@pytest.mark.parametrize("name", PER_TOPIC)
@over(problem=problems(), random=st.randoms(use_true_random=False))
def test_readers_of_a_topic_differ_by_at_most_one(
    name: str, problem: StrategyInput, random: Random
) -> None:
    assigned = get(name, parameters_of(name, problem, random))(problem)
    for topic in problem.topics:
        sizes = [
            sum(p.stream == topic for p in assigned[m.member_id])
            for m in problem.members
            if reads(m, topic)
        ]
        assert not sizes or max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", ["round_robin", "sticky"])
@over(problem=problems())
def test_equal_subscriptions_end_even_over_all_topics(name: str, problem: StrategyInput) -> None:
    members = tuple(replace(m, subscription=None) for m in problem.members)
    assigned = get(name)(replace(problem, members=members))
    sizes = [len(own) for own in assigned.values()]
    assert not sizes or max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", [n for n in NAMES if "sticky" not in n])
@over(problem=problems(), random=st.randoms(use_true_random=False))
def test_what_was_owned_matters_to_the_sticky_ones_only(
    name: str, problem: StrategyInput, random: Random
) -> None:
    parameters = parameters_of(name, problem, random) | (
        {"inner": "circle"} if name == "zone_nearby" else {}
    )
    fresh = replace(problem, members=tuple(replace(m, owned={}) for m in problem.members))
    assert get(name, parameters)(problem) == get(name, parameters)(fresh)
