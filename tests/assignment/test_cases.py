"""Facts from the suites of Kafka and RocketMQ, and from the rebalancing report.

`cases/` holds them; the collection beside the checkout comes first where it is there. Kafka's
sticky cases allow several answers: sizes, moves and balance are compared, and never being worse
than the listed answer.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from assignment.errors import InvalidInput
from assignment.strategies import cases as case_form
from assignment.strategies import get
from assignment.strategies.given import Assigned
from assignment.types import Partition

OWN = Path(__file__).parent / "cases"
SHARED = Path(__file__).parents[3] / "shared" / "cases"

Case = dict[str, Any]
Pairs = set[tuple[str, Partition]]


def cases() -> list[Case]:
    paths = {p.name: p for folder in (OWN, SHARED) for p in sorted(folder.glob("*.json"))}
    return [json.loads(path.read_text()) for path in paths.values()]


def run(case: Case) -> Assigned:
    found = case_form.read_case(case)
    return get(found.strategy, found.parameters)(found.given)


def without(case: Case, gone: str) -> Case:
    return case | {"members": {m: t for m, t in case["members"].items() if m != gone}}


def pairs(assigned: Mapping[str, Any]) -> Pairs:
    return {(m, Partition(*p)) for m, own in assigned.items() for p in own}


def held(case: Case) -> Pairs:
    """Previous pairs that still count: the newest claim of an existing, subscribed partition."""
    meta = case.get("member_meta", {})
    claims: dict[Partition, list[tuple[int, str]]] = {}
    for m, p in pairs(case["previous"]):
        reads = p.stream in case["members"].get(m, ())
        if reads and p.number < case["topics"].get(p.stream, 0):
            generation = meta.get(m, {}).get("generation", 1)
            claims.setdefault(p, []).append((generation, m))
    newest = {p: [m for g, m in own if g == max(own)[0]] for p, own in claims.items()}
    return {(own[0], p) for p, own in newest.items() if len(own) == 1}


def spread(case: Case, assigned: Mapping[str, Any]) -> int:
    sizes = [len(assigned.get(m, ())) for m in case["members"]]
    return max(sizes) - min(sizes) if sizes else 0


def no_single_move_helps(case: Case, got: Assigned) -> bool:
    return all(
        len(got[giver]) - len(got[taker]) < 2
        for giver in got
        for p in got[giver]
        for taker in got
        if p.stream in case["members"][taker]
    )


def room_of(case: Case, partition: Partition) -> str:
    return f"IDC{1 + partition.number // case['queues_per_room']}"


def rooms(case: Case) -> set[str]:
    """Those with members."""
    return {m.partition("-")[0] for m in case["members"]}


def stays_in_its_room(case: Case, got: Assigned) -> bool:
    return all(
        m.partition("-")[0] == room_of(case, p) or room_of(case, p) not in rooms(case)
        for m, p in pairs(got)
    )


def some_are_shared_by_all(case: Case, got: Assigned) -> bool:
    return any(room_of(case, p) not in rooms(case) for _, p in pairs(got))


def others_keep_when_the_first_leaves(case: Case, got: Assigned) -> bool:
    first = min(case["members"])
    after = run(without(case, first))
    return pairs({m: own for m, own in got.items() if m != first}) <= pairs(after)


def only_a_newcomer_gains(case: Case, got: Assigned) -> bool:
    topics = next(iter(case["members"].values()))
    after = run(case | {"members": case["members"] | {"CID-new": topics}})
    return all(pairs({m: after[m]}) <= pairs({m: got[m]}) for m in got)


def is_complete(case: Case, got: Assigned) -> bool:
    return len(pairs(got)) == sum(case["topics"].values())


def sizes_of(got: Assigned) -> dict[str, int]:
    return {m: len(own) for m, own in got.items()}


def per_topic(got: Assigned, wanted: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    return {m: dict(Counter(p.stream for p in got[m])) for m in wanted}


def not_worse(listed: Mapping[str, Any], got: Assigned, case: Case) -> bool:
    moves, listed_moves = len(pairs(got) - held(case)), len(pairs(listed) - held(case))
    return moves <= listed_moves and spread(case, got) <= spread(case, listed)


CHECKS: dict[str, Callable[[Any, Assigned, Case], bool]] = {
    "after_add_only_new_gains": lambda want, got, case: only_a_newcomer_gains(case, got) == want,
    "after_remove_first_others_keep": lambda want, got, case: (
        others_keep_when_the_first_leaves(case, got) == want
    ),
    "complete": lambda want, got, case: is_complete(case, got) == want,
    "for_member": lambda want, got, _: {m: list(got.get(m, ())) for m in want} == want,
    "rooms_without_members_shared_by_all": lambda want, got, case: (
        some_are_shared_by_all(case, got) == want
    ),
    "same_room_only_when_room_has_members": lambda want, got, case: (
        stays_in_its_room(case, got) == want
    ),
    "assignment_of": lambda want, got, _: pairs(want) == pairs({m: got[m] for m in want}),
    "assigned_total": lambda want, got, _: want == sum(sizes_of(got).values()),
    "balanced": lambda want, got, case: (spread(case, got) <= 1) == want,
    "best_possible_max_minus_min": lambda want, got, case: want == spread(case, got),
    "kafka_exact": not_worse,
    "kafka_max_minus_min": lambda want, got, case: spread(case, got) <= want,
    "keeps_previous": lambda _, got, case: held(case) <= pairs(got),
    "moved_max": lambda want, got, case: len(pairs(got) - held(case)) <= want,
    "no_duplicates": lambda _, got, __: len({p for _, p in pairs(got)}) == len(pairs(got)),
    "no_improving_move": lambda _, got, case: no_single_move_helps(case, got),
    "per_topic_counts": lambda want, got, _: per_topic(got, want) == want,
    "size_max": lambda want, got, _: max(sizes_of(got).values()) <= want,
    "size_min": lambda want, got, _: min(sizes_of(got).values()) >= want,
    "sizes": lambda want, got, _: want == sizes_of(got),
    "sizes_of": lambda want, got, _: want == {m: len(got[m]) for m in want},
    "sizes_sorted": lambda want, got, _: want == sorted(sizes_of(got).values()),
    "subset_of_previous": lambda _, got, case: pairs(got) <= pairs(case["previous"]),
    "subset_of_previous_for": lambda want, got, case: (
        pairs({m: got[m] for m in want}) <= pairs(case["previous"])
    ),
    # A first round of two: what is withheld is what the lock delays here, so the end is compared.
    "withheld": lambda want, got, case: (
        spread(case, got) <= 1
        and pairs(case["expected"]["assignment"]) <= pairs(got)
        and {Partition(*p) for p in want} <= {p for _, p in pairs(got)}
    ),
}


def is_exact(case: Case) -> bool:
    """Kafka's sticky cases allow several answers."""
    return case_form.read_case(case).strategy != "sticky" or case["name"].startswith("seed001_")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_case(case: Case) -> None:
    expected = dict(case["expected"])
    if "error" in expected:
        with pytest.raises(InvalidInput):
            run(case)
        return
    got = run(case)
    listed = expected.pop("assignment", None)
    if listed is not None and is_exact(case):
        assert pairs(got) == pairs(listed)
    elif listed is not None and "withheld" not in expected:
        assert not_worse(listed, got, case)
        assert len(pairs(got)) == len(pairs(listed))
    for name, want in expected.items():
        assert CHECKS[name](want, got, case), f"{name}: wanted {want}, got {got}"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_answer_does_not_need_what_is_expected(case: Case) -> None:
    """What is piped in may lack `expected` and `applies_to`; then the strategy is named."""
    bare = {k: v for k, v in case.items() if k not in ("expected", "applies_to")}
    strategy = case_form.STRATEGY_OF[case["applies_to"][0]]
    if "error" in case["expected"]:
        with pytest.raises(InvalidInput, match="unknown topic 'topic2'"):
            case_form.read_case(bare, strategy)
        return
    found = case_form.read_case(bare, strategy)
    assert get(strategy, found.parameters)(found.given) == run(case)


def test_the_cases_are_there() -> None:
    assert len(list(OWN.glob("*.json"))) == 83
