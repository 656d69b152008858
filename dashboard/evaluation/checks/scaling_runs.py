"""The two runs of scaling_check, one with learners and one without, and what is wrong with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from dashboard.demo.options import COUNTERS
from dashboard.evaluation.checks.scaling import CONSUMERS, Scaling
from dashboard.evaluation.judge import not_zero
from dashboard.evaluation.system import own_run
from dashboard.management.arguments import say

KEYS_JUDGED = 100_000  # in a partition: below, the fixed costs of an acquire are most of both times
WARM_OVER_COLD_MAX = 0.1
# A learner takes over from an owner that lives: the others wait for a lease or for a time limit.
HANDED_OVER = ("add", "drain_named", "drain_half", "kill_celery", "kill_web")


@dataclass(frozen=True, slots=True)
class Asked:
    """`keys`: at least so many in each partition."""

    keys: int
    partitions: int
    steps: tuple[str, ...]
    seed: int


def check(asked: Asked) -> tuple[dict[str, Any], list[str]]:
    """The numbers, and what is wrong with them. Raises Refused, TreeFailed, Stopped."""
    say("with learners")
    warm, wrong = measured(asked, stateful=True)
    say("without learners")
    cold, wrong_cold = measured(asked, stateful=False)
    problems = wrong + [f"without learners: {text}" for text in wrong_cold]
    ratio = warm_over_cold(warm["learned_ms"], cold["restored_ms"])
    each = min(warm["keys"]["least"], cold["keys"]["least"])
    is_judged = ratio is not None and each >= KEYS_JUDGED
    if each < asked.keys:
        problems.append(f"a partition had {each} keys in place of {asked.keys}")
    if ratio is not None and is_judged and ratio > WARM_OVER_COLD_MAX:
        problems.append(f"warm_over_cold {ratio} is above {WARM_OVER_COLD_MAX}")
    problems += [text for step in warm["changes"] for text in pauses_of(step, moved=is_judged)]
    return {
        "steps": warm["changes"],
        "cold": cold["changes"],
        "warm_over_cold": ratio,
        "warm_ms": middle(warm["learned_ms"]),
        "cold_ms": middle(cold["restored_ms"]),
        "keys": warm["keys"]["in_all"],
        "keys_per_partition": each,
        "warm_over_cold_judged": is_judged,
    }, problems


def measured(asked: Asked, *, stateful: bool) -> tuple[Mapping[str, Any], list[str]]:
    """One run: what its evaluation says, and what is wrong with it whatever it is for."""
    with own_run(
        say,
        asked.seed,
        consumers=consumers_at_start(asked),
        partitions=asked.partitions,
        pipeline=COUNTERS,
        stateful=stateful,
    ) as run:
        scaling = Scaling(run, asked.keys)
        scaling.start()
        scaling.all(asked.steps)
        run.wait_processed(run.end_flow())
        run.demo.wait_settled()
        found = run.evaluate_times("--changes", scaling.changes)
    problems = [*scaling.problems, *found["faults"]]
    problems += [text for step in found["changes"] for text in faults_of(step)]
    problems += [f"{name} was not run" for name in asked.steps[len(found["changes"]) :]]
    return found, problems


def consumers_at_start(asked: Asked) -> int:
    """No more than the first step needs."""
    return min(CONSUMERS, asked.partitions - 1) if asked.steps[:1] == ("add",) else CONSUMERS


def faults_of(step: dict[str, Any]) -> list[str]:
    """What is wrong with a step's numbers, with learners or without; empty when all is right."""
    wrong = not_zero(step, "lost", "doubled")
    if step["max_minus_min"] is None or step["max_minus_min"] > 1:
        wrong.append(f"max_minus_min is {step['max_minus_min']}")
    return [f"{step['name']}: {text}" for text in wrong]


def pauses_of(step: dict[str, Any], *, moved: bool) -> list[str]:
    """What paused too long in a step with learners: any partition that did not move, and, where
    `moved` is asked for, one that did for more than two micro-batches and a little (`limit_ms`).
    """
    wrong = not_zero(step, "unaffected_paused")
    longest = step["pause_ms"]["max"]
    if moved and step["name"] in HANDED_OVER and (longest is None or longest > step["limit_ms"]):
        wrong.append(f"pause_ms max is {longest}, above {step['limit_ms']}")
    return [f"{step['name']}: {text}" for text in wrong]


def warm_over_cold(warm: list[float], cold: list[float]) -> float | None:
    """None when one of them was not measured."""
    return round(median(warm) / median(cold), 4) if warm and cold else None


def middle(values: list[float]) -> float | None:
    return round(median(values), 1) if values else None
