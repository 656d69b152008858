"""Five hundred seeds; the first that fails is told with its last steps."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.conftest import Ahead
from tests.simulation.outcome import Summary
from tests.simulation.seeds import run_many, scenario_of

SEEDS, AT_ONCE = 500, 50
FAST_SEEDS = 100  # with --fast
VACUOUS_MAX = AT_ONCE // 10
ROOT = Path(__file__).resolve().parents[2]
TRACE_OF_SEEDS = """
from tests.simulation import seeds
for seed in range(8):
    print(seeds.run(seed, trace=True).trace)
"""


def summary_of(first: int) -> Summary:
    """Of so many seeds from this one on."""
    return run_many(range(first, first + AT_ONCE))


@pytest.mark.ahead(of=summary_of)
@pytest.mark.timeout(900)  # waits for what has the lowest priority
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=() if first < FAST_SEEDS else pytest.mark.slow)
        for first in range(0, SEEDS, AT_ONCE)
    ],
)
def test_after_any_faults_everything_is_owned_and_nothing_is_lost(first: int, ahead: Ahead) -> None:
    summary: Summary = ahead(summary_of, first)
    if broken := summary.broken:
        replay = f"python3 manage.py simulate --seed {broken.seed}"
        pytest.fail(f"{broken.trace}\n{broken.broken}\n{replay}", pytrace=False)
    assert summary.passed + summary.vacuous == AT_ONCE
    assert summary.vacuous <= VACUOUS_MAX


def test_some_seeds_have_hundreds_of_members() -> None:
    assert sum(scenario_of(seed).members >= 100 for seed in range(SEEDS)) >= 2


def test_a_quarter_of_the_seeds_has_learners_and_comes_to_the_ends_of_a_scale_down(
    ahead: Ahead,
) -> None:
    stateful = [seed for seed in range(FAST_SEEDS) if scenario_of(seed).replicas]
    assert len(stateful) == FAST_SEEDS // 4
    firsts = range(0, FAST_SEEDS, AT_ONCE)
    reached = sum((ahead(summary_of, first).reached for first in firsts), Counter())
    assert reached["learner made owner"] > 3 * len(stateful)  # some four of each, as it falls out
    for end in ("clean", "forced", "cancelled"):  # "died" is rare
        assert reached[f"scale-down: {end}"] > 0, end


def test_a_fifth_of_the_seeds_has_instances_of_which_two_processes_live_at_once(
    ahead: Ahead,
) -> None:
    named = [seed for seed in range(FAST_SEEDS) if scenario_of(seed).instances]
    assert len(named) == FAST_SEEDS // 5
    firsts = range(0, FAST_SEEDS, AT_ONCE)
    assert sum(ahead(summary_of, first).struck["instance refused"] for first in firsts) > 0


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    traces = [trace(hash_seed) for hash_seed in ("1", "2")]
    assert len(traces[0]) > 10_000
    assert traces[0] == traces[1]


def trace(hash_seed: str) -> str:
    """Of some seeds, in a process whose sets have another order."""
    command = [sys.executable, "-c", TRACE_OF_SEEDS]
    environ = {"PYTHONHASHSEED": hash_seed}
    ran = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    return ran.stdout
