"""Even loads in bulk, before `exchange` has the last word: by halving at the mean.

All that can go from members above the mean to members below it goes, along cheapest chains
(a maximum flow by Dinic's phases). Then those above that are left, with whoever they could give
to, never help the rest: each side is evened out at its own mean.
"""

from dataclasses import dataclass, field

import numpy as np

from assignment.errors import InvariantBroken
from assignment.strategies.exchange import NEVER, Flow, Hop, Mask, Matrix, nearest


def level(state: Flow) -> None:
    """Brings the sum of squared loads to its least, in place."""
    parts = [np.flatnonzero(state.readers.any(axis=0))]
    while parts:  # each split is into smaller ones
        members = parts.pop()
        if len(members) and np.ptp(state.loads[members]) > 1:
            part = state.columns(members)
            parts += [members[side] for side in _split(part)]
            state.flow[:, members] = part.flow
            state.loads[members] = part.loads


def _split(part: Flow) -> tuple[Mask, Mask]:
    """The members around those that stay above the mean, and around those that stay below it."""
    low, rest = divmod(int(part.loads.sum()), len(part.loads))
    high = low + (rest > 0)
    for at in range(low, high + 1):
        _saturate(part, at)
    gives, takes = part.flow > 0, part.readers
    above = _spread(gives, takes, part.loads > high)
    below = _spread(takes, gives, part.loads < low)
    if (above & below).any() or above.all() or below.all():
        raise InvariantBroken(f"loads {part.loads.tolist()} do not part at {low}")
    return above, below


def _spread(first: Mask, second: Mask, members: Mask) -> Mask:
    """`members` and all that a chain of hops leads to (or comes from: with the two exchanged)."""
    while True:
        reached = members | second[first[:, members].any(axis=1)].any(axis=0)
        if reached.sum() == members.sum():
            return members
        members = reached


def _saturate(part: Flow, at: int) -> None:
    """Until no chain leads from a member above `at` to one below it."""
    for _ in range(int(part.loads.sum()) + 1):  # each phase moves at least one partition
        give, take = _with_hops(*part.prices())
        members, _, _ = nearest(give, take, np.where(part.loads > at, 0, NEVER))
        takers = np.flatnonzero((part.loads < at) & (members < NEVER))
        if not len(takers):
            return
        pools = (members + give).min(axis=1)
        pools = np.where(pools < NEVER // 2, pools, -2 * NEVER)  # equal to nothing below
        phase = _Phase(part, at, take + pools[:, None] == members, members + give == pools[:, None])
        for taker in takers[np.argsort(members[takers], kind="stable")].tolist():
            phase.fill(taker)
    raise InvariantBroken(f"loads {part.loads.tolist()} did not settle at {at}")


def _with_hops(give: Matrix, take: Matrix) -> tuple[Matrix, Matrix]:
    """Prices by which, of chains with equal moves, the shorter is cheaper."""
    outweighs = give.shape[1] + 1
    return (
        np.where(give < NEVER, give * outweighs, NEVER),
        np.where(take < NEVER, take * outweighs + 1, NEVER),
    )


@dataclass(slots=True)
class _Phase:
    """Depth-first search, backwards from takers, over hops that lie on cheapest chains.

    takes, gives [C, N]: which those are. Whatever led nowhere is not tried again in this phase.
    """

    part: Flow
    at: int
    takes: Mask
    gives: Mask
    give_room: Matrix = field(init=False)
    take_room: Matrix = field(init=False)
    dead: set[int] = field(default_factory=set)
    pools: dict[int, list[int]] = field(default_factory=dict)  # of a taker, still to try
    givers: dict[int, list[int]] = field(default_factory=dict)  # of a pool, still to try

    def __post_init__(self) -> None:
        self.give_room, self.take_room = self.part.rooms()

    def fill(self, taker: int) -> None:
        while self.part.loads[taker] < self.at and (chain := self._chain(taker)):
            units = self._units(chain)
            for pool, giver, to in chain:
                self.give_room[pool, giver] -= units
                self.take_room[pool, to] -= units
            self.part.move(chain, units)

    def _units(self, chain: list[Hop]) -> int:
        loads = self.part.loads
        room = min(
            min(self.give_room[hop.pool, hop.giver], self.take_room[hop.pool, hop.taker])
            for hop in chain
        )
        spare, wanted = loads[chain[0].giver] - self.at, self.at - loads[chain[-1].taker]
        return int(min(room, spare, wanted))

    def _chain(self, taker: int) -> list[Hop]:
        """From a member above the level to `taker`; empty when there is none left."""
        back: list[Hop] = []
        member = taker
        while self.part.loads[member] <= self.at:
            if hop := self._hop_to(member):
                back.append(hop)
                member = hop.giver
            elif back:
                self.dead.add(member)
                member = back.pop().taker
            else:
                return []
        return back[::-1]

    def _hop_to(self, taker: int) -> Hop | None:
        pools = self._pools_of(taker)
        while pools:
            pool = pools[-1]
            givers = self._givers_of(pool) if self.take_room[pool, taker] > 0 else []
            while givers:
                giver = givers[-1]
                if self.give_room[pool, giver] > 0 and giver not in self.dead:
                    return Hop(pool, giver, taker)
                givers.pop()
            pools.pop()
        return None

    def _pools_of(self, taker: int) -> list[int]:
        if taker not in self.pools:
            self.pools[taker] = np.flatnonzero(self.takes[:, taker]).tolist()
        return self.pools[taker]

    def _givers_of(self, pool: int) -> list[int]:
        """Those above the level last: they are tried first, so that chains are short."""
        if pool not in self.givers:
            givers = np.flatnonzero(self.gives[pool])
            above = self.part.loads[givers] > self.at
            self.givers[pool] = givers[np.argsort(above, kind="stable")].tolist()
        return self.givers[pool]
