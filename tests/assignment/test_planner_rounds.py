"""Properties of the planner: any view, and rounds carried out by members that come and go."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import example
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.metrics import most_kept
from assignment.planner import plan
from assignment.planner.indexed import whole_weights
from assignment.planner.loads import is_even
from assignment.planner.values import Assignment, GroupView, Learner, LearnerSettings, MemberView
from tests.assignment.planner_checks import check, owners, splits
from tests.assignment.rounds import Group, handovers, live

NAMES = "123456789abc"
ROUNDS_MAX = 200  # to convergence: each round either promotes a learner or changes nothing

settings = st.builds(
    LearnerSettings,
    standby_replicas=st.integers(0, 3),
    learners_max=st.integers(0, 3),
)
capacities = st.sampled_from((1.0, 1.0, 1.0, 0.5, 2.0, 3.0, 0.1))
lags = st.none() | st.integers(0, 3)
learners = st.builds(Learner, lags, st.booleans())
partition_names = st.sampled_from([*NAMES, "gone"])  # some that do not exist


def member_views(member_id: str) -> st.SearchStrategy[MemberView[str]]:
    """Anything that could be said, also what contradicts itself and others."""
    return st.builds(
        MemberView,
        member_id=st.just(member_id),
        able=st.sampled_from((True, True, True, False)),
        leaving=st.sampled_from((False, False, True)),
        forced=st.sampled_from((False, False, False, True)),
        zone=st.sampled_from(("", "a", "b")),
        capacity=capacities,
        owned=st.frozensets(partition_names, max_size=8),
        standby=st.dictionaries(partition_names, lags, max_size=4),
        learning=st.dictionaries(partition_names, learners, max_size=3),
        unserved=st.just(frozenset()) | st.frozensets(partition_names, max_size=4),
    )


@st.composite
def views(draw: st.DrawFn) -> GroupView[str]:
    return GroupView(
        partitions=NAMES[: draw(st.integers(0, len(NAMES)))],
        members=[draw(member_views(f"S{n}")) for n in range(draw(st.integers(0, 6)))],
        stateful=draw(st.sampled_from((True, True, False))),
        settings=draw(settings),
    )


@over(views())
def test_whatever_is_reported_every_rule_holds(view: GroupView[str]) -> None:
    check(view, plan(view))


@over(views(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_reported_does_not_matter(
    view: GroupView[str], random: Random
) -> None:
    partitions, members = list(view.partitions), list(view.members)
    random.shuffle(partitions)
    random.shuffle(members)
    shuffled = replace(
        view,
        partitions=partitions,
        members=[
            replace(
                member,
                standby=dict(reversed(member.standby.items())),
                learning=dict(reversed(member.learning.items())),
            )
            for member in members
        ],
    )
    assert plan(shuffled) == plan(view)


def test_a_member_leaves_though_only_one_above_its_share_can_serve_what_it_has() -> None:
    view = GroupView(
        partitions="12",
        members=[
            MemberView(member_id="S0", capacity=0.5, unserved={"1"}),
            MemberView(member_id="S1", leaving=True, owned={"1"}),
            MemberView(member_id="S2"),
        ],
    )
    assert handovers(plan(view)) == [("1", "S1", "S2")]


def obeyed(view: GroupView[str], assignment: Assignment[str]) -> GroupView[str]:
    """The view after all have done as told, while no learner has become ready."""
    done = []
    for member in view.members:
        part = assignment.members[member.member_id]
        lag = {p: learner.lag_records for p, learner in member.learning.items()}
        done.append(
            replace(
                member,
                owned=frozenset(part.assigned),
                standby=dict.fromkeys(part.standby, 0),
                learning={p: Learner(lag.get(p)) for p in part.learning},
            )
        )
    return replace(view, members=done)


def are_contested(view: GroupView[str]) -> bool:
    owned = [partition for member in view.members for partition in member.owned]
    return len(owned) > len({*owned})


@over(views())
@example(
    GroupView(
        partitions="1234567",
        members=[
            MemberView(member_id="S0", owned=set("1234")),
            MemberView(member_id="S1", unserved={"7"}),
            MemberView(member_id="S2", leaving=True, owned=set("12347")),
        ],
        stateful=False,
    )
)
def test_a_plan_that_was_obeyed_is_a_fixed_point(view: GroupView[str]) -> None:
    """Where two say that they own the same it is handed on for balance once one of them has it."""
    if are_contested(view):
        view = obeyed(view, plan(view))
    first = plan(view)
    after = obeyed(view, first)
    second = plan(after)
    assert second.moves == 0
    assert owners(second) == owners(first)
    assert handovers(second) == handovers(first)
    assert {m: part.standby for m, part in second.members.items()} == {
        m: part.standby for m, part in first.members.items()
    }


# --- rounds ---------------------------------------------------------------------------------------


@st.composite
def groups(draw: st.DrawFn, *, members_max: int = 6) -> Group:
    """Members that own some of the partitions, one each."""
    names = NAMES[: draw(st.integers(0, len(NAMES)))]
    group = Group(names, draw(st.sampled_from((True, True, True, False))), draw(settings))
    count = draw(st.integers(1, members_max))
    owned = {n: draw(st.integers(-1, count - 1)) for n in names}
    for n in range(count):
        own = [name for name, m in owned.items() if m == n]
        zone = draw(st.sampled_from(("", "a", "b")))
        group.join(live(f"S{n}", own, zone=zone, capacity=draw(capacities)))
    return group


EVENTS: dict[str, Callable[[Group, str], Any]] = {
    "plan": lambda group, _: check(group.view(), group.plan()),
    "obey": Group.carry_out,
    "catch up": Group.catch_up,
    "crash": Group.crash,
    "leave": lambda group, m: group.change(m, leaving=True),
    "force": lambda group, m: group.change(m, leaving=True, forced=True),
    "cancel": lambda group, m: group.change(m, leaving=False, forced=False),
    "unable": lambda group, m: group.change(m, able=False),
    "able": lambda group, m: group.change(m, able=True),
    "join": lambda group, _: group.join(live(f"N{len(group.actors)}{group.moves}", zone="a")),
}
likely = ["plan", "obey", "obey", "catch up"]
happenings = st.lists(
    st.tuples(st.sampled_from([*likely, *EVENTS]), st.integers(0, 9)), max_size=40
)


@over(groups(), happenings)
def test_any_crash_at_any_round_converges(group: Group, happening: list[tuple[str, int]]) -> None:
    for name, chosen in happening:
        if group.actors:
            EVENTS[name](group, sorted(group.actors)[chosen % len(group.actors)])
            group.check_locks()
    converge(group)


def converge(group: Group) -> None:
    """Everybody obeys and catches up, one member a round; then nothing is left to do."""
    for _ in range(ROUNDS_MAX):
        view = group.view()
        before = group.plan()
        check(view, before)
        group.carry_out_all()
        group.check_locks()
        behind = group.behind()
        if not behind and group.plan() == before:
            break
        for member in behind[:1]:
            group.catch_up(member)
    check_at_rest(group)


def check_at_rest(group: Group) -> None:
    last = group.plan()
    stay = {m for m, actor in group.actors.items() if actor.shown.stays}
    assert last.moves == 0
    assert not handovers(last)
    assert last.balanced
    if stay:
        assert not last.unowned
        assert owners(last).keys() == set(group.partitions)
        assert set(owners(last).values()) <= stay
    for member_id, actor in group.actors.items():
        assert actor.owned == set(last.members[member_id].assigned)
        assert actor.standby == set(last.members[member_id].standby)
    standbys = Counter(p for part in last.members.values() for p in part.standby)
    assert all(count <= group.settings.standby_replicas for count in standbys.values())


@over(
    st.integers(3, 6),
    st.integers(0, 12),
    st.integers(1, 2),
    st.lists(st.sampled_from(("join", "crash", "leave")), max_size=6),
    st.randoms(use_true_random=False),
)
def test_standbys_end_up_as_even_as_owners(
    members: int, partitions: int, wanted: int, happening: list[str], random: Random
) -> None:
    group = Group(NAMES[:partitions], True, LearnerSettings(standby_replicas=wanted))
    for n in range(members):
        group.join(live(f"S{n}"))
        converge(group)
    for turn, name in enumerate(happening):
        if name == "join":
            group.join(live(f"N{turn}"))
        elif len(group.actors) > 3:
            EVENTS[name](group, random.choice(sorted(group.actors)))
        converge(group)
    counts = [len(actor.standby) for actor in group.actors.values()]
    assert max(counts) - min(counts) <= 1


def play(group: Group, random: Random) -> None:
    """Rounds without any trouble; whoever is ready first."""
    for _ in range(ROUNDS_MAX):
        group.plan()
        group.carry_out_all()
        learning = sorted(m for m, actor in group.actors.items() if actor.learning)
        if not learning:
            return
        group.catch_up(random.choice(learning))


@over(groups(), st.sets(st.integers(0, 5)), st.randoms(use_true_random=False))
def test_balance_is_reached_with_the_fewest_moves(
    group: Group, leaving: set[int], random: Random
) -> None:
    for member_id in group.actors:
        group.change(member_id, capacity=1.0, leaving=int(member_id[1:]) in leaving)
    owned = {m: len(actor.owned) for m, actor in group.actors.items()}
    loads = [owned[m] for m, actor in group.actors.items() if actor.shown.stays]
    if loads:
        play(group, random)
        assert group.moves == sum(owned.values()) - most_kept(loads, len(group.partitions))
        assert plan(group.view()).balanced


@over(groups(members_max=4), st.randoms(use_true_random=False))
def test_balance_by_capacity_is_reached_with_the_fewest_moves(group: Group, random: Random) -> None:
    loads = [len(actor.owned) for actor in group.actors.values()]
    weights = whole_weights([actor.shown.capacity for actor in group.actors.values()])
    even = [s for s in splits(len(group.partitions), len(loads)) if is_even(s, weights)]
    play(group, random)
    kept = max(sum(map(min, loads, split)) for split in even)
    assert group.moves == sum(loads) - kept
    assert plan(group.view()).balanced
