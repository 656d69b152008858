"""How many partitions each member has and should have: even by capacity (L8)."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction


class Loads:
    """Partitions counted per member. The lightest is who would have least with one more."""

    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = weights
        self.counts = [0] * len(weights)

    def add(self, member: int) -> None:
        self.counts[member] += 1

    def with_more(self, member: int, more: int = 1) -> float:
        """Partitions over capacity after `more` of them."""
        return (self.counts[member] + more) / self.weights[member]

    def lightest(self, members: Iterable[int]) -> int:
        """Ties: the smallest id."""
        return min(members, key=lambda m: (self.with_more(m), m))


@dataclass(frozen=True, slots=True)
class EvenShares:
    """Every even split gives low[i] to each; `extra` of the `tied` ones have one more."""

    low: tuple[int, ...]
    tied: tuple[bool, ...]
    extra: int


def even_shares(total: int, weights: Sequence[int]) -> EvenShares:
    """The splits of `total` in which no move from one to another lowers the larger load / weight.

    They are those of D'Hondt's rule: the (k)-th partition of i costs k / weights[i], the cheapest
    `total` of all are taken; whatever costs just as much as the dearest of these is a tie.
    """
    if not total or not weights:
        return EvenShares((0,) * len(weights), (False,) * len(weights), 0)
    dearest = _dearest(total, weights)
    a, b = dearest.numerator, dearest.denominator
    low = tuple(-(-a * weight // b) - 1 for weight in weights)
    tied = tuple(a * weight % b == 0 for weight in weights)
    return EvenShares(low, tied, total - sum(low))


def _dearest(total: int, weights: Sequence[int]) -> Fraction:
    """What the last partition costs. Nobody gets less than its exact share rounded down."""
    shares = [total * weight // sum(weights) for weight in weights]
    costs = [
        (Fraction(n + 1, weight), i)
        for i, (n, weight) in enumerate(zip(shares, weights, strict=True))
    ]
    heapq.heapify(costs)
    for _ in range(total - sum(shares)):
        cost, i = costs[0]
        shares[i] += 1
        heapq.heapreplace(costs, (cost + Fraction(1, weights[i]), i))
    return max(Fraction(n, weight) for n, weight in zip(shares, weights, strict=True))


def is_even(counts: Sequence[int], weights: Sequence[int]) -> bool:
    """No move from one to another lowers the larger load / weight; of equals: max - min <= 1."""
    if not counts:
        return True
    pairs = list(zip(counts, weights, strict=True))
    return max(Fraction(n, w) for n, w in pairs) <= min(Fraction(n + 1, w) for n, w in pairs)
