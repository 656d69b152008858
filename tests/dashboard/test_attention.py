"""The rules of attention, and what becomes of them from one sample to the next."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.coordinator import attending
from dashboard.coordinator.attending import Taken
from dashboard.live.attention import (
    BY_WORD,
    DEFAULTS,
    LIMITS,
    RULES,
    SETTLE_MS,
    UNKNOWN_MS,
    WORDS,
    Change,
    Facts,
    Look,
    Open,
    change,
    holding,
    is_starting,
)
from dashboard.models import Group, Occurrence, Sample
from tests.dashboard.agents import make_group

WELL = Facts(members=2, conflicts=0, unowned=0, stalled=0, lag_records=0, events_per_second=10.0)
HOUR_MS = 3_600_000
NOW_MS = 1_900_000_000_000


# --- when a rule holds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "below", "reached", "why"),
    [
        ("conflict", {}, {"conflicts": 1}, "1 partition with two claims"),
        ("unowned", {}, {"unowned": 3}, "3 partitions without an owner"),
        ("no coordinator", {"tick_age_ms": 5_000}, {"tick_age_ms": 5_001}, "no tick for a while"),
        ("flapping", {}, {"flapping": "member m2 joined 4 times"}, "member m2 joined 4 times"),
        ("stalled", {}, {"stalled": 1}, "1 member makes no progress"),
        ("unbalanced", {"max_minus_min": 1}, {"max_minus_min": 2}, "most and least loaded"),
        ("lagging", {"lag_records": 600}, {"lag_records": 1_000}, "more than 60 s of its own rate"),
    ],
)
def test_a_rule_holds_from_its_limit_on(
    word: str, below: dict[str, Any], reached: dict[str, Any], why: str
) -> None:
    assert holding(replace(WELL, **below))[word] == ""
    found = holding(replace(WELL, **reached))
    assert why in str(found.pop(word))
    assert not any(found.values())


def test_every_rule_was_tried_and_has_a_reason_a_limit_and_a_next_step() -> None:
    assert tuple(holding(WELL)) == WORDS
    for rule in RULES:
        assert rule.meaning.endswith(".") and rule.step.endswith(".") and rule.page
        assert rule.limits and rule.lasts.is_span
        assert all(one.least <= one.default <= one.most for one in rule.begins())
    assert len(LIMITS) == sum(len(rule.begins()) for rule in RULES) + 1, "a name is used twice"


@pytest.mark.parametrize(
    ("word", "facts", "limits"),
    [
        ("unowned", {"unowned": 3}, {"unowned_partitions": 4}),
        ("stalled", {"stalled": 1}, {"stalled_members": 2}),
        ("unbalanced", {"max_minus_min": 4}, {"unbalanced_difference": 5}),
        ("lagging", {"lag_records": 5_000}, {"lagging_records": 5_001}),
        ("lagging", {"lag_records": 5_000}, {"lagging_behind_ms": 500_000}),
    ],
)
def test_a_group_sets_its_own_limits(
    word: str, facts: dict[str, Any], limits: dict[str, int]
) -> None:
    troubled = replace(WELL, **facts)
    assert holding(troubled)[word]
    assert holding(troubled, {**DEFAULTS, **limits})[word] == ""


def test_what_is_not_known_neither_holds_nor_ends() -> None:
    unknown = holding(replace(WELL, conflicts=None, stalled=None, lag_records=None))
    assert [word for word, why in unknown.items() if why is None] == [
        "conflict",
        "stalled",
        "lagging",
    ]
    for one in (None, Open(began_at_ms=0, seen_at_ms=0, is_raised=True)):
        assert change(one, None, HOUR_MS, 0) is Change.NOTHING


def test_an_empty_group_lacks_members_and_not_owners() -> None:
    empty = replace(WELL, members=0, unowned=4, lag_records=2_000)
    found = {word: why for word, why in holding(empty).items() if why}
    assert found == {"lagging": "no member while 2000 events wait: start an agent"}


def test_what_is_being_rebalanced_is_not_unbalanced() -> None:
    assert holding(replace(WELL, max_minus_min=9, is_rebalancing=True))["unbalanced"] == ""


# --- occurrences ----------------------------------------------------------------------------------

WAITS = Open(began_at_ms=0, seen_at_ms=5_000, is_raised=False)
RAISED = Open(began_at_ms=0, seen_at_ms=5_000, is_raised=True)


@pytest.mark.parametrize(
    ("one", "why", "at_ms", "lasts_ms", "expected"),
    [
        (None, "", 0, 0, Change.NOTHING),
        (None, "x", 0, 0, Change.RAISE),
        (None, "x", 0, 1, Change.BEGIN),
        (WAITS, "x", 10_000, 10_001, Change.SEE),
        (WAITS, "x", 10_000, 10_000, Change.RAISE),
        (WAITS, "", 10_000, 60_000, Change.FORGET),
        (WAITS, "x", 5_001 + UNKNOWN_MS, 10_000, Change.BEGIN),
        (RAISED, "x", HOUR_MS, 10_000, Change.SEE),
        (RAISED, "", 4_999 + SETTLE_MS, 10_000, Change.NOTHING),
        (RAISED, "", 5_000 + SETTLE_MS, 10_000, Change.END),
    ],
)
def test_what_becomes_of_an_occurrence(
    one: Open | None, why: str, at_ms: int, lasts_ms: int, expected: Change
) -> None:
    assert change(one, why, at_ms, lasts_ms) is expected


def looks(*members_owned: tuple[int, bool], every_ms: int = 5_000) -> list[Look]:
    return [Look((n + 1) * every_ms, *found) for n, found in enumerate(members_owned)]


@pytest.mark.parametrize(
    ("found", "starts"),
    [
        (looks((2, True), (2, False)), False),
        (looks((0, False), (1, False), (2, False)), True),
        (looks((0, False), (2, False), (2, True), (2, False)), False),
        (looks((0, False), (0, False)), False),
        ([Look(UNKNOWN_MS + 1, 2, False)], True),
        ([Look(5_000, 2, True), Look(6_000 + UNKNOWN_MS, 2, False)], True),
        ([Look(5_000, 2, True), Look(6_000 + UNKNOWN_MS, 2, True)], False),
    ],
    ids=[
        "lost one later", "members came", "was whole", "stays empty", "seen for the first time",
        "nobody looked", "nobody looked and all is well",
    ],
)  # fmt: skip
def test_a_start_begins_and_ends(found: list[Look], starts: bool) -> None:
    assert is_starting(found, 0, HOUR_MS) is starts


def test_a_start_does_not_last_for_ever() -> None:
    found = looks((0, False), *[(1, False)] * 9)
    assert is_starting(found, 0, 40_001) and not is_starting(found, 0, 40_000)


# --- of samples -----------------------------------------------------------------------------------


class Sampled:
    """Samples of a group, 5 s apart, each looked at."""

    def __init__(self, group: Group) -> None:
        self.group, self.at_ms, self.limits = group, NOW_MS, dict(DEFAULTS)

    def next(self, times: int = 1, **values: Any) -> list[Occurrence]:
        """What the last of them raised or ended."""
        found: list[Occurrence] = []
        for _ in range(times):
            self.at_ms += 5_000
            facts = {"members": 2, "owned": 4, "conflicts": 0, "stalled": 0, **values}
            row = Sample.objects.create(group=self.group, at_ms=self.at_ms, **facts)
            found = attending.look([Taken(self.group, row, self.limits)])
        return found

    def open(self) -> dict[str, bool]:
        rows = self.group.occurrences.filter(ended_at_ms=None)
        return {row.rule: row.raised_at_ms is not None for row in rows}


@pytest.fixture
def sampled(store: Any, group_name: str, db: None) -> Sampled:
    made = Sampled(make_group(group_name))
    made.next()
    return made


def test_what_lasts_is_raised_once_with_the_reason_and_ends_when_it_was_seen_last(
    sampled: Sampled,
) -> None:
    assert sampled.next(6, owned=3) == []
    assert sampled.open() == {"unowned": False}
    began_ms = sampled.at_ms - 25_000
    (row,) = sampled.next(owned=1)
    assert (row.rule, row.why) == ("unowned", "3 partitions without an owner")
    assert (row.began_at_ms, row.raised_at_ms) == (began_ms, sampled.at_ms)
    assert sampled.next(3, owned=2) == []
    last_ms = sampled.at_ms
    assert sampled.next(5) == []
    (over,) = sampled.next()
    assert (over.pk, over.ended_at_ms) == (row.pk, last_ms)
    assert over.why == "2 partitions without an owner"
    assert Occurrence.objects.count() == 1 and sampled.open() == {}


def test_what_passes_leaves_no_trace(sampled: Sampled) -> None:
    sampled.next(3, owned=3)
    sampled.next()
    assert not Occurrence.objects.exists()


def test_what_stops_for_a_moment_is_the_same_occurrence(sampled: Sampled) -> None:
    (first,) = sampled.next(conflicts=1)
    sampled.next(2)
    sampled.next(conflicts=2)
    (row,) = Occurrence.objects.all()
    assert (row.pk, row.why, row.ended_at_ms) == (first.pk, "2 partitions with two claims", None)


def test_starting_up_is_no_alarm_but_for_two_claims(store: Any, group_name: str, db: None) -> None:
    new = Sampled(make_group(group_name))
    new.next(20, members=1, owned=0, stalled=1)
    assert new.open() == {}
    new.next(members=1, owned=0, conflicts=1)
    assert new.open() == {"conflict": True}
    new.next(20, members=1, owned=0)
    assert new.open()["unowned"], "a start that never ends is one"


def test_a_group_whose_limits_are_higher_is_quiet(sampled: Sampled) -> None:
    sampled.limits |= {"unowned_partitions": 2, "stalled_for_ms": 600_000}
    sampled.next(30, owned=3, stalled=1)
    assert sampled.open() == {"stalled": False}


def test_a_rule_that_is_gone_or_unknown_changes_nothing(sampled: Sampled) -> None:
    sampled.next(13, stalled=1)
    assert sampled.open() == {"stalled": True}
    sampled.next(20, stalled=None)
    assert sampled.open() == {"stalled": True}
    assert set(WORDS) == set(BY_WORD)


def test_what_is_long_over_is_dropped(sampled: Sampled) -> None:
    sampled.next(conflicts=1)
    sampled.next(10)
    ended_ms = Occurrence.objects.get().ended_at_ms
    assert ended_ms is not None
    attending.prune(sampled.group, ended_ms + attending.KEPT_MS)
    assert Occurrence.objects.exists()
    attending.prune(sampled.group, ended_ms + attending.KEPT_MS + 1)
    assert not Occurrence.objects.exists()
