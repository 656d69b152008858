"""Runs the core's decisions on what Redis holds; writes targets, history and pushes.

Remembers nothing that it could not rebuild. `tick` is the safety net under everything that a lost
task, a killed worker or an absent Redis left undone.
"""

from dashboard.coordinator.asking import want_rebalance
from dashboard.coordinator.history import store_events
from dashboard.coordinator.rebalancing import rebalance
from dashboard.coordinator.sampling import sample, trim
from dashboard.coordinator.setting_up import tell
from dashboard.coordinator.ticking import tick

__all__ = ["rebalance", "sample", "store_events", "tell", "tick", "trim", "want_rebalance"]
