"""A change that moves_max cut short goes on by itself, one round after the other has settled."""

from assignment.coordinator import settings_of, target_of
from assignment.errors import InvalidInput
from assignment.scripts import GroupRead
from assignment.strategies.weighted_sticky import MEASURED
from dashboard.models import Group, RebalanceOutcome

NEXT_ROUND = "next round"
LOOKED_FOR_MS = 60_000  # after the last round; computing a target every second would cost too much


def is_cut_short(group: Group, view: GroupRead) -> bool:
    """Whether the group's own strategy would move more now that its last round is over.

    Measured weights change all the time, so of them every next cause makes just one round.
    """
    settings = settings_of(view)
    parameters = settings.strategy_parameters
    most = parameters.get("moves_max")
    if settings.stateful or most is None or parameters.get("weights") == MEASURED:
        return False
    last = group.rebalances.filter(outcome=RebalanceOutcome.DONE).first()
    if last is None or last.target_epoch != view.meta.target_epoch or last.moved < most:
        return False
    if view.now_ms - (last.finished_at_ms or 0) > LOOKED_FOR_MS:
        return False
    try:
        return bool(target_of(view).change.moves)
    except InvalidInput:
        return False
