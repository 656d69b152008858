"""The default strategy: as even as can be, with the fewest moves that allow it (assignment.md).

Members with equal subscriptions take the closed form below; others go through `flow`.
"""

import numpy as np
import numpy.typing as npt

from assignment.errors import InvalidInput
from assignment.strategies.deal import Counts, deal, quotas, surplus
from assignment.strategies.dense import NOBODY, Dealt, Dense, Owners
from assignment.strategies.flow import owners as owners_by_flow
from assignment.strategies.given import Assigned, StrategyInput

_PIECE = 2**17  # partitions
Starts = npt.NDArray[np.int64]


def assign(given: StrategyInput) -> Assigned:
    """Rules 1 to 5 of assignment.md; topics that do not exist are ignored, as Kafka's client does.

    Q0-Q7 fresh on C0, C1, C2: C0{0,3,6} C1{1,4,7} C2{2,5}; C1 leaves: C0{0,3,4,6} C2{1,2,5,7}.
    """
    return dealt(given).named


def dealt(given: StrategyInput) -> Dealt:
    dense = Dense.of(given, unknown_topics=True)
    return Dealt(dense, owners(dense))


def owners(dense: Dense) -> Owners:
    return owners_of(dense.previous, dense.starts, dense.subscribed)


def owners_of(previous: Owners, starts: Starts, subscribed: npt.NDArray[np.bool_]) -> Owners:
    """The core: previous [P], starts [T + 1] and subscribed [T, N] as in `dense`; new owners [P].

    What a previous owner keeps (rule 1) is decided already. InvalidInput names an owner that is no
    member, or does not read what it holds.
    """
    members = subscribed.shape[1]
    if len(previous) and not NOBODY <= previous.min() <= previous.max() < members:
        wrong = int(previous.min() if previous.min() < NOBODY else previous.max())
        raise InvalidInput(f"previous owner {wrong} is not one of {members} members")
    if not members:
        return np.full(len(previous), NOBODY, dtype=np.int32)
    if subscribed.all():
        return _even(previous, starts, members)
    return owners_by_flow(previous, starts, subscribed)


def _even(previous: Owners, starts: Starts, members: int) -> Owners:
    """Everybody reads everything: quotas, trim, deal. O(P + N log N) time, a few arrays of P."""
    if previous.max(initial=NOBODY) == NOBODY:
        return deal(np.zeros(members, dtype=np.int64), len(previous))
    loads = _loads(previous, members)
    quota = quotas(loads, len(previous))
    result = previous.copy()
    result[surplus(previous, np.maximum(loads - quota, 0), starts)] = NOBODY
    free = np.flatnonzero(result == NOBODY)
    result[free] = deal(np.minimum(loads, quota), len(free))
    return result


def _loads(previous: Owners, members: int) -> Counts:
    """[N] partitions of each, counted in pieces: whole, the replicas would outgrow the cache."""
    loads = np.zeros(members + 1, dtype=np.int64)
    step = max(_PIECE, members)
    for start in range(0, len(previous), step):
        loads += np.bincount(previous[start : start + step] + 1, minlength=members + 1)
    return loads[1:]
