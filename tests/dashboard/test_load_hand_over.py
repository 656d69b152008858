"""load_check --hand-over: who joins, who is killed, and what is told of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.evaluation.load import hand_over
from dashboard.evaluation.load.aims import Sizes
from dashboard.evaluation.load.client import Status
from dashboard.evaluation.load.hand_over import MEMBERS, NOTHING, HandOver
from dashboard.evaluation.load.watching import Gaps

PARTITIONS = 1_000
ALL, HALF = (MEMBERS, PARTITIONS), (MEMBERS, PARTITIONS // 2)
NOBODY = (0, 0)
Step = tuple[int, int]  # settled members, partitions held


@dataclass
class FakeCrowd:
    """`steps`: what it is after each word that is noted in `said`, its own or another's."""

    said: list[str]
    name: str
    steps: Sequence[Step] = ()
    programs: Sequence[Any] = ()

    def __post_init__(self) -> None:
        self.programs = [SimpleNamespace(kill=lambda: self.said.append(f"{self.name} killed"))]

    def ask(self, line: str) -> None:
        self.said.append(f"{self.name} {line}")

    def status(self) -> Status:
        words = [word for word in self.said if not word.startswith("others")]
        settled, held = self.steps[len(words) - 1] if self.steps else NOBODY
        return Status(
            members=MEMBERS, joined=settled, settled=settled, held=held, heard=0, cpu_s=0.0,
            count={}, why={}, latencies={"3": 1},
        )  # fmt: skip


@dataclass
class FakeScene:
    said: list[str] = field(default_factory=list)
    asked: Any = field(default_factory=lambda: SimpleNamespace(hand_over=PARTITIONS))

    def __post_init__(self) -> None:
        self.crowd, self.run = FakeCrowd(self.said, "others"), self
        self.watch = SimpleNamespace(gaps=Gaps(longest_ms=700), anew=lambda: None)

    def say_now_and_then(self, text: Callable[[], str]) -> None:
        text()

    def happens(self, condition: Callable[[], bool], seconds: float) -> bool:
        return condition()


def told(givers: Sequence[Step], takers: Sequence[Step]) -> tuple[list[str], dict[str, Any]]:
    """After the words givers join, takers join, givers killed."""
    scene: Any = FakeScene()
    of: list[Any] = [
        FakeCrowd(scene.said, "givers", givers),
        FakeCrowd(scene.said, "takers", takers),
    ]
    return scene.said, HandOver(scene, *of).run()


def test_half_goes_to_those_who_join_and_then_all_as_the_others_are_killed() -> None:
    said, found = told([ALL, HALF, NOBODY], [NOBODY, HALF, ALL])
    assert said == ["givers join", "others anew", "takers join", "givers killed"]
    assert found["hand_over_s"] is not None
    assert (found["hand_over_tick_gap_ms"], found["hand_over_p99_ms"]) == (700, 2.0)


@pytest.mark.parametrize(
    ("givers", "takers"),
    [
        ([ALL, HALF, NOBODY], [NOBODY, NOBODY, NOBODY]),
        ([ALL, HALF, NOBODY], [NOBODY, HALF, (MEMBERS, PARTITIONS - 1)]),
        ([ALL, (MEMBERS - 1, 500), NOBODY], [NOBODY, HALF, ALL]),
    ],
)
def test_what_never_came_to_its_end_has_no_time_but_its_gap(
    givers: Sequence[Step], takers: Sequence[Step]
) -> None:
    _, found = told(givers, takers)
    assert (found["hand_over_s"], found["hand_over_tick_gap_ms"]) == (None, 700)


def test_nothing_is_measured_before_somebody_owns_all() -> None:
    said, found = told([HALF], [NOBODY])
    assert (said, found) == (["givers join"], NOTHING)


def test_its_clients_play_as_many_as_give_and_take() -> None:
    asked = Sizes(members=20, groups=4, partitions=40, processes=1, seconds=5, hand_over=9_000)
    sizes = hand_over.sizes_of(asked)
    assert (sizes.members, sizes.processes, sizes.partitions) == (2 * MEMBERS, 2, 9_000)
    assert hand_over.partitions_of(asked) == {hand_over.GROUP: 9_000}
    assert hand_over.partitions_of(replace(asked, hand_over=0)) == {}
