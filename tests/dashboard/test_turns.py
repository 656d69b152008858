"""A herd of joins: some wait, and the others are told when to come."""

import math
from itertools import pairwise
from typing import Any

import pytest
import uvicorn

from assignment.types import GroupSettings
from dashboard.agents import answers, turns
from dashboard.agents.turns import LATER_MAX_S, PER_SECOND, WAIT_MAX_S, Turns
from dashboard.web.__main__ import APPLICATION, OPTIONS
from dashboard.web.heads import Answer
from tests.dashboard.agents import BEAT, JOIN, Caller, token_of

A_SECOND = int(PER_SECOND)


class Clock:
    now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


def test_turns_come_at_a_pace_in_the_order_of_those_who_came() -> None:
    made = Turns(Clock())
    waits = [made.take("g") for _ in range(round(WAIT_MAX_S * PER_SECOND) + 1)]
    assert waits[0] == 0
    assert None not in waits
    steps = [after - before for before, after in pairwise(waits)]  # type: ignore[operator]
    assert steps == pytest.approx([1 / PER_SECOND] * len(steps))


def test_a_group_waits_for_no_other() -> None:
    made = Turns(Clock())
    while made.take("herd") is not None:
        pass
    assert made.take("other") == 0


def waits_of(made: Turns, group: str, count: int) -> list[float]:
    waits = [made.take(group) for _ in range(count)]
    return [wait for wait in waits if wait is not None]


def test_groups_share_the_pace_while_members_of_them_wait() -> None:
    clock = Clock()
    made = Turns(clock)
    for group in ("a", "b"):
        waits_of(made, group, A_SECOND // 2)
    clock.now_s += 2 * turns.COUNT_EVERY_S
    first, second = waits_of(made, "a", 2)
    assert second - first == pytest.approx(2 / PER_SECOND)
    clock.now_s += 2
    assert waits_of(made, "a", 2) == pytest.approx([0, 1 / PER_SECOND])


def test_joins_come_slower_while_heartbeats_are_answered_late() -> None:
    made = Turns(Clock())
    made.lag_s = 10 * turns.LATE_S
    assert waits_of(made, "g", 3) == pytest.approx([0, 10 / PER_SECOND, 20 / PER_SECOND])


def test_who_is_sent_away_by_all_waits_for_no_group() -> None:
    clock = Clock()
    made = Turns(clock)
    for n in range(100):
        waits_of(made, f"g{n}", A_SECOND // 2)
    clock.now_s += 2 * turns.COUNT_EVERY_S
    waits_of(made, "g0", 1)
    assert [made.later_s() for _ in range(10)] == 10 * [math.ceil(WAIT_MAX_S)]


def test_who_is_sent_away_in_such_a_moment_comes_back_as_if_it_were_over() -> None:
    made = Turns(Clock())
    made.lag_s = 20 * turns.LATE_S
    told = [made.later_s("g") for _ in range(A_SECOND)]
    assert told[-1] == math.ceil(WAIT_MAX_S + 1)


def test_a_herd_that_comes_when_it_was_told_to_is_taken() -> None:
    """10,000 at one moment: each is sent away once, or twice, and nobody for longer than needed."""
    clock = Clock()
    made = Turns(clock)
    comes = {0: 10_000}  # in how many tenths of a second: so many
    sent_away = 0
    for tenth in range(600):
        clock.now_s = 50 + tenth / 10
        for n in range(comes.pop(tenth, 0)):
            if made.take("g") is None:
                sent_away += 1
                later = made.later_s("g") * 10 + n % 6  # as agents do, up to half as much later
                comes[tenth + later] = comes.get(tenth + later, 0) + 1
        if not comes:
            break
    assert tenth / 10 < 1.5 * 10_000 / PER_SECOND + 2
    assert sent_away < 1.5 * 10_000


def test_what_is_told_is_bounded_and_so_is_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    made = Turns(clock)
    told = [made.later_s() for _ in range(A_SECOND * (LATER_MAX_S + 5))]
    assert (told[0], told[-1]) == (math.ceil(WAIT_MAX_S), LATER_MAX_S)
    assert told == sorted(told)
    monkeypatch.setattr(turns, "GROUPS_MAX", 10)
    for n in range(30):
        made.take(f"g{n}")
    assert len(made._next) == 10
    clock.now_s += 1
    made.take("late")
    assert set(made._next) == {"late"}


def test_a_connection_outlives_several_heartbeats() -> None:
    given = uvicorn.main.make_context("web", [APPLICATION, *OPTIONS], resilient_parsing=True).params
    heartbeat_ms = GroupSettings(stream="s", partitions=1).heartbeat_ms
    assert given["timeout_keep_alive"] * 1_000 >= 4 * heartbeat_ms


@pytest.fixture
def caller(group: Any) -> Caller:
    return Caller(group.name, token_of(group))


@pytest.mark.django_db(transaction=True)
async def test_who_would_wait_too_long_is_told_when_to_come_and_members_are_not(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Answer] = []
    spoken = answers.as_answer

    def watched(problem: Any) -> Answer:
        said.append(spoken(problem))
        return said[-1]

    assert (await caller.post("join", JOIN))[0] == 200
    monkeypatch.setattr(answers, "as_answer", watched)
    monkeypatch.setattr(turns, "PER_SECOND", 0.5)
    assert (await caller.post("join", JOIN | {"member": "m2"}))[0] == 200
    refused = [await caller.post("join", JOIN | {"member": f"m{n}"}) for n in (3, 4)]
    assert [(status, told["title"]) for status, told in refused] == [(503, "Busy")] * 2
    later = [one.lines.split(b"retry-after: ")[1] for one in said]
    assert later == [b"3\r\n", b"5\r\n"]
    assert (await caller.post("heartbeat", BEAT))[0] == 200
