"""The default strategy: as even as can be, with the fewest moves that allow it (assignment.md).

Members with equal subscriptions take the closed form below; others go through `flow`.
"""

import numpy as np
import numpy.typing as npt

from assignment.strategies import flow
from assignment.strategies.dense import NOBODY, Dense, Owners
from assignment.strategies.given import Assigned, StrategyInput

_RADIX_MEMBERS_MAX = 2**16  # numpy sorts 16-bit keys by radix: linear, not n log n
Counts = npt.NDArray[np.int64]


def assign(given: StrategyInput) -> Assigned:
    """Rules 1 to 5 of assignment.md; topics that do not exist are ignored, as Kafka's client does.

    Q0-Q7 fresh on C0, C1, C2: C0{0,3,6} C1{1,4,7} C2{2,5}; C1 leaves: C0{0,3,4,6} C2{1,2,5,7}.
    """
    dense = Dense.of(given, unknown_topics=True)
    return dense.named(owners(dense))


def owners(dense: Dense) -> Owners:
    if not dense.member_ids:
        return np.full(dense.partitions, NOBODY, dtype=np.int32)
    if dense.subscribed.all():
        return even_owners(dense.previous, len(dense.member_ids), dense.starts)
    return flow.owners(dense)


def even_owners(previous: Owners, members: int, starts: Counts) -> Owners:
    """Everybody reads everything: quotas, trim, deal. O(P + N log N) time, a few arrays of P."""
    loads = np.bincount(previous[previous >= 0], minlength=members)
    quota = quotas(loads, len(previous))
    result = previous.copy()
    result[surplus(previous, loads, quota, starts)] = NOBODY
    free = np.flatnonzero(result == NOBODY)
    result[free] = deal(np.minimum(loads, quota), len(free))
    return result


def quotas(loads: Counts, partitions: int) -> Counts:
    """floor(P/N), and one more for the P mod N members that hold most already (ties: smaller id).

    Any other choice of the larger quotas would have to move at least as many partitions.
    """
    smaller, larger_count = divmod(partitions, len(loads))
    result = np.full(len(loads), smaller, dtype=np.int64)
    result[np.argsort(-loads, kind="stable")[:larger_count]] += 1
    return result


def surplus(previous: Owners, loads: Counts, quota: Counts, starts: Counts) -> Counts:
    """The partitions that over-quota members give up: their highest, by number before topic.

    By number first, so that what a member gives up is spread over its topics.
    """
    over = np.append(loads > quota, False)  # the last one answers for NOBODY
    held = np.flatnonzero(over[previous])
    if len(starts) > 2:
        topic = np.searchsorted(starts, held, side="right") - 1
        held = held[np.argsort(held - starts[topic], kind="stable")]
    owner = previous[held]
    if len(loads) <= _RADIX_MEMBERS_MAX:
        owner = owner.astype(np.uint16)
    by_owner = np.argsort(owner, kind="stable")
    sizes = np.where(over[:-1], loads, 0)
    firsts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.arange(len(held)) - firsts
    given_up: Counts = held[by_owner[rank >= np.repeat(quota, sizes)]]
    return given_up


def deal(loads: Counts, free: int) -> Owners:
    """[free] members in the order of dealing: each time the one with the fewest (ties: smaller id).

    Between two neighbouring loads the same members take part in every turn, so whole stretches of
    turns are written at once.
    """
    levels = np.unique(loads)
    stretches = []
    left = free
    for index, level in enumerate(levels):
        if left <= 0:
            break
        taking = np.flatnonzero(loads <= level).astype(np.int32)
        turns = -(-left // len(taking))
        if index + 1 < len(levels):
            turns = min(turns, int(levels[index + 1] - level))
        stretches.append(np.tile(taking, turns)[:left])
        left -= turns * len(taking)
    return np.concatenate(stretches) if stretches else np.empty(0, dtype=np.int32)
