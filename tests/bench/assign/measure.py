"""CPU of the calling thread, and memory above the input.

The machine may be busy: rounds of all work are interleaved with the yardstick, and the best of each
counts. numpy runs all of this in the calling thread.
"""

import time
import tracemalloc
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np

from assignment.strategies.dense import Dense, Owners
from assignment.strategies.given import StrategyInput
from assignment.types import Member, Partition
from tests.bench.assign.work import SEED, Quality, Work

ROUNDS = 15
YARDSTICK = "np.argsort(a, kind='stable') over 1,000,000 random int32"
YARDSTICK_SIZE = 1_000_000
MIB = 2**20


def yardstick() -> Callable[[], object]:
    bounds = np.iinfo(np.int32)
    a = np.random.default_rng(SEED).integers(
        bounds.min, bounds.max, YARDSTICK_SIZE, dtype=np.int32, endpoint=True
    )
    return lambda: np.argsort(a, kind="stable")


def figures(works: Mapping[str, Work], rounds: int = ROUNDS) -> dict[str, Any]:
    """{"yardstick_ms", "rows": [...]}: times are the best of the rounds, ratios those of the bests.

    names_ms is what names at the edges would add: from members' claims to arrays, and the result
    by name.
    """
    for work in works.values():
        work.given  # noqa: B018  # made before anything is timed: it is the input
    calls = {"": yardstick(), **{name: work.run for name, work in works.items()}}
    times = interleaved(calls, rounds)
    best_yardstick = min(times.pop(""))
    return {
        "yardstick_ms": best_yardstick,
        "rows": [
            {
                "name": name,
                "best_ms": min(times[name]),
                "median_ms": median(times[name]),
                "ratio": min(times[name]) / best_yardstick,
                **quality_and_memory(work),
            }
            for name, work in works.items()
        ],
    }


def quality_and_memory(work: Work) -> dict[str, Any]:
    result, peak_mib = peak(work)
    quality = Quality.of(work, result)
    return {
        "peak_mib": peak_mib,
        "moves": quality.moves,
        "least_moves": quality.least_moves,
        "max_minus_min": quality.max_minus_min,
        "most_even": quality.most_even,
    }


def interleaved(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU ms of each call in each round, after one round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            ms = cpu_ms(call)
            if turn:
                times[name].append(ms)
    return times


def cpu_ms(call: Callable[[], object]) -> float:
    began = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - began) / 1e6


def peak(work: Work) -> tuple[Owners, float]:
    """The result, and the most MiB that were allocated at once, the result among them."""
    tracemalloc.start()
    try:
        result = work.run()
        return result, tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()


# --- names at the edges -------------------------------------------------------------------------


def names_ms(work: Work) -> float:
    """CPU ms of Dense.of and Dense.named, once."""
    given = by_name(work)
    dense = Dense.of(given, unknown_topics=False)
    result = work.run()
    del dense
    return cpu_ms(lambda: Dense.of(given, unknown_topics=False).named(result))


def by_name(work: Work) -> StrategyInput:
    sizes = np.diff(work.starts).tolist()
    topics = [topic_name(t) for t in range(len(sizes))]
    partitions = [
        Partition(t, n) for t, size in zip(topics, sizes, strict=True) for n in range(size)
    ]
    owned: list[dict[Partition, int]] = [{} for _ in work.live]
    for partition, owner in zip(partitions, work.given.tolist(), strict=True):
        if owner >= 0:
            owned[owner][partition] = 1
    members = tuple(
        Member(
            member_id=member_name(number),
            subscription=frozenset(t for t, reads in zip(topics, column, strict=True) if reads),
            owned=held,
        )
        for number, column, held in zip(
            work.live.tolist(), work.subscribed.T.tolist(), owned, strict=True
        )
    )
    return StrategyInput(members=members, topics=dict(zip(topics, sizes, strict=True)))


def member_name(number: int) -> str:
    return f"m{number:07}"  # in the order of the numbers


def topic_name(number: int) -> str:
    return f"t{number:03}"
