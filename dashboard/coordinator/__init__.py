"""Runs the core's rules on what Redis holds; carries out their effects there and in the database.

Decides and remembers nothing. `tick` is the safety net under everything that a lost task, a killed
worker or an absent Redis left undone.
"""

from assignment.coordinator import draining, setting_up
from assignment.scripts.group_read import GroupRead
from dashboard.coordinator.carrying import Here, carry_out, record_of
from dashboard.coordinator.carrying import want_rebalance as want_rebalance
from dashboard.coordinator.history import store_events as store_events
from dashboard.coordinator.keeping import keep_history as keep_history
from dashboard.coordinator.retention import retain as retain
from dashboard.coordinator.running import look as look
from dashboard.coordinator.running import rebalance as rebalance
from dashboard.coordinator.running import rebalance_in_turn as rebalance_in_turn
from dashboard.coordinator.running import tick as tick
from dashboard.coordinator.sampling import sample as sample
from dashboard.coordinator.sampling import sample_due as sample_due
from dashboard.coordinator.trimming import trim as trim
from dashboard.coordinator.trimming import trim_due as trim_due
from dashboard.models import Group


def tell(group: Group) -> bool:
    """Whether Redis had to be told the group's settings. Raises StoreUnavailable."""
    return carry_out(setting_up.tell(record_of(group)), Here(group.name, group))


def advance(group: Group, view: GroupRead) -> bool:
    """Whether anything of its scale-downs changed. Raises StoreUnavailable."""
    return carry_out(draining.advance(view), Here(group.name, group))
