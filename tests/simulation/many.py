"""Many seeds, one after the other or over some processes, until the first that fails."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence

from tests.simulation import seeds
from tests.simulation.outcome import Outcome, Summary

AT_ONCE = 10  # seeds that a process takes


def run_many(
    chosen: Sequence[int],
    *,
    jobs: int = 1,
    progress: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """In the order of the seeds, whatever `jobs` is, so that the first failure is the same."""
    summary, began_s = Summary(), time.monotonic()
    for outcome in _outcomes(chosen, jobs):
        summary.add(outcome)
        summary.wall_s = time.monotonic() - began_s
        if summary.broken:
            break
        progress(summary)
    return summary


def _outcomes(chosen: Sequence[int], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(seeds.run, chosen)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(seeds.run, chosen, chunksize=AT_ONCE)
