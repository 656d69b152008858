"""Who gets how many of what: a flow from pools to members, and exchanges that make it better.

A pool is all topics that have the same readers: its partitions are interchangeable. A hop is one
partition of a pool that goes from one member to another; a chain of hops makes its first member
poorer by one and its last richer by one. Knows nothing of single partitions.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from assignment.errors import InvariantBroken

Matrix = npt.NDArray[np.int64]  # [pools, members]
Mask = npt.NDArray[np.bool_]
Vector = npt.NDArray[np.int64]
NEVER = 2**60  # above every real cost: 2 * loads * members; sums of two stay within 63 bits
UNBOUNDED = 2**40  # partitions
_NOBODY = -1


class Hop(NamedTuple):
    """One partition of `pool` goes from `giver` to `taker`."""

    pool: int
    giver: int
    taker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """flow [C, N]: partitions of a pool with a member; kept: how many of them it held before.

    readers [C, N]: who may hold any; loads [N]: the sums of flow. `move` changes flow and loads in
    place. As long as every chain moved was a cheapest one between its ends, no other flow with the
    same loads moves fewer partitions (successive shortest paths).
    """

    flow: Matrix
    kept: Matrix
    readers: Mask
    loads: Vector

    @classmethod
    def of(cls, flow: Matrix, kept: Matrix, readers: Mask) -> Self:
        return cls(flow=flow, kept=kept, readers=readers, loads=flow.sum(axis=0))

    def columns(self, members: Vector) -> Self:
        """A replica for some members."""
        return type(self).of(self.flow[:, members], self.kept[:, members], self.readers[:, members])

    def prices(self) -> tuple[Matrix, Matrix]:
        """What it costs, in moves, that a member gives or takes one of a pool.

        Giving away what came only now takes a move back (-1); so taking back what was held is free.
        """
        give = np.where(self.flow > 0, np.where(self.flow > self.kept, -1, 0), NEVER)
        take = np.where(self.readers, np.where(self.flow < self.kept, 0, 1), NEVER)
        return give, take

    def rooms(self) -> tuple[Matrix, Matrix]:
        """How many a member can give or take of a pool before its price changes."""
        give = np.where(self.flow > self.kept, self.flow - self.kept, self.flow)
        take = np.where(self.flow < self.kept, self.kept - self.flow, UNBOUNDED)
        return give, take

    def move(self, chain: list[Hop], units: int = 1) -> None:
        """`chain` from its first giver to its last taker."""
        for pool, giver, taker in chain:
            self.flow[pool, giver] -= units
            self.flow[pool, taker] += units
        self.loads[chain[0].giver] -= units
        self.loads[chain[-1].taker] += units


def exchange(state: Flow) -> None:
    """Chains of one partition until none pays, in place: more even first, then fewer moves.

    The sum of squared loads with the moves behind it is an M-convex function of the loads, so a
    state that no single chain improves is the best of all (Murota, Discrete Convex Analysis).
    """
    square = len(state.loads) + 1  # outweighs the moves along any chain of hops
    steps_max = int(square * (state.loads**2).sum() + state.flow.sum()) + 1
    for _ in range(steps_max):  # each step lowers that integer cost
        chains = _paying(state, square)
        if not chains:
            return
        for chain in chains:
            state.move(chain)
    raise InvariantBroken(f"loads {state.loads.tolist()} were not even after {steps_max} steps")


def _paying(state: Flow, square: int) -> list[list[Hop]]:
    """Cheapest chains that lower the cost, no member in two of them: all can be moved at once."""
    begin = np.where(state.loads > 0, -square * (2 * state.loads - 1), NEVER)
    distance, pool_of, giver_of = nearest(*state.prices(), begin)
    cost = distance + square * (2 * state.loads + 1)
    ranked = np.argsort(cost, kind="stable")
    pools, givers = pool_of.tolist(), giver_of.tolist()
    chains: list[list[Hop]] = []
    used: set[int] = set()
    for taker in ranked[cost[ranked] < 0].tolist():
        chain = _chain(taker, pools, givers)
        touched = {chain[0].giver, *(hop.taker for hop in chain)}
        if not touched & used:
            used |= touched
            chains.append(chain)
    return chains


def _chain(taker: int, pools: list[int], givers: list[int]) -> list[Hop]:
    chain: list[Hop] = []
    while givers[taker] != _NOBODY:
        chain.append(Hop(pools[taker], givers[taker], taker))
        taker = givers[taker]
    return chain[::-1]


def nearest(give: Matrix, take: Matrix, begin: Vector) -> tuple[Vector, Vector, Vector]:
    """Bellman-Ford from all members at once, at the cost `begin`.

    [N] each: distance, and the pool and the giver of the last hop. No cycle ever pays for itself,
    because only cheapest chains were moved; so distances settle within N rounds.
    """
    every = np.arange(len(begin))
    distance = begin
    pool_of = np.full(len(begin), _NOBODY)
    giver_of = np.full(len(begin), _NOBODY)
    for _ in range(len(begin) + 1):
        from_member = distance + give
        giver = from_member.argmin(axis=1)
        from_pool = from_member.min(axis=1)[:, None] + take
        pool = from_pool.argmin(axis=0)
        found = from_pool[pool, every]
        better = (found < distance) & (found < NEVER // 2)
        if not better.any():
            return distance, pool_of, giver_of
        distance = np.where(better, found, distance)
        pool_of = np.where(better, pool, pool_of)
        giver_of = np.where(better, giver[pool], giver_of)
    raise InvariantBroken("a cycle of exchanges pays for itself")
