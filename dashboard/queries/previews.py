"""What a rebalance would do now, per strategy: the core's own answer, computed on the live view."""

from dataclasses import dataclass

from assignment import strategies
from assignment.group import Change, target_of
from assignment.scripts import Purpose
from dashboard.live import groups as live_groups

MOVES_SHOWN = 300
RULE = "the most even; of those, the one with the fewest moves"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    strategy: str
    change: Change
    recommended: bool

    @property
    def moves_shown(self) -> list[tuple[int, str, str]]:
        """(partition, from, to)"""
        return [(m.partition.number, m.giver, m.taker) for m in self.change.moves[:MOVES_SHOWN]]

    @property
    def moves_left_out(self) -> int:
        return max(0, len(self.change.moves) - MOVES_SHOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Previews:
    group_epoch: int
    every: list[Preview]


def of_group(name: str) -> Previews:
    """Raises StoreUnavailable, and InvalidInput when the group cannot be read."""
    view = live_groups.read(name, Purpose.LOOK)
    changes = {strategy: target_of(view, strategy).change for strategy in strategies.NAMES}
    best = min(changes, key=lambda s: (_uneven(changes[s]), len(changes[s].moves), s != "sticky"))
    return Previews(
        group_epoch=view.meta.group_epoch,
        every=[
            Preview(strategy=strategy, change=change, recommended=strategy == best)
            for strategy, change in sorted(changes.items(), key=lambda item: item[0] != best)
        ],
    )


def _uneven(change: Change) -> int:
    """Whether loads differ by one or none does not matter."""
    return max(1, change.max_minus_min or 0)
