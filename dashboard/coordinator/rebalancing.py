"""One run of a group's rebalance at a time; triggers that come meanwhile make it run again."""

from assignment.coordinator import rebalance as rules
from dashboard.coordinator.carrying import AWAY, Here, carry_out
from dashboard.coordinator.outbox import Run
from dashboard.live import groups as live_groups
from dashboard.live import queue
from dashboard.models import Group

ROUNDS_MAX = 5  # triggers that keep coming wait for the next task


def rebalance(group_name: str, task_id: str = "", worker: str = "") -> str:
    """What came of it, in words. Raises StoreUnavailable, Group.DoesNotExist."""
    result = "another run has it"
    for _ in range(ROUNDS_MAX):
        with queue.running(group_name) as mine:
            if not mine:
                queue.found_busy(group_name)
                return result
            queue.take_wanted(group_name)
            here = Here(group_name, _row(group_name), Run(task_id, worker))
            result = carry_out(rules.rebalance(), here)
        if not queue.is_wanted(group_name):
            break
    return result


def _row(group_name: str) -> Group | None:
    """None while the database is away: a group that was there goes on without it."""
    try:
        return Group.objects.get(name=group_name)
    except AWAY:
        if group_name not in live_groups.known_groups():
            raise
        return None
