"""What a run asks of the product or its database, in a process of its own.

    python -m dashboard.evaluation.chaos.acts ACT GROUP [ARGUMENT ...]

The last line is the answer in JSON.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

from assignment.wire import GroupKeys

LOOK_EVERY_S = 0.05
PHASES = ("detect", "compute", "deliver", "revoke", "acquire", "first_effect", "total")


def targets(name: str) -> list[dict[str, Any]]:
    """In the order of their epochs. `by`: the coordination that computed it, "" where none is told,
    or where a person asked: the dashboard computes that in both.
    """
    from dashboard.models import Rebalance, RebalanceRequest

    rows = Rebalance.objects.filter(group__name=name).order_by("incarnation", "target_epoch")
    asked = frozenset(RebalanceRequest.objects.values_list("rebalance", flat=True))

    def by(row: Rebalance) -> str:
        if row.pk in asked or not row.celery_worker:
            return ""
        return "server" if row.celery_task_id else "client"

    return [
        {
            "incarnation": row.incarnation,
            "epoch": row.target_epoch,
            "at_ms": row.at_ms,
            "cause": row.cause,
            "by": by(row),
            "owners": row.owners(),
            "moved": row.moved,
            "avoidable": row.avoidable,
            "phases": {phase: getattr(row, f"{phase}_ms") for phase in PHASES},
        }
        for row in rows
    ]


def strategy(name: str, new: str) -> str:
    from dashboard.actions import groups
    from dashboard.management.answers import by_command, group_named

    return groups.change_settings(group_named(name), {"strategy": new}, by_command()).name


def compute(name: str, folder: str, me: str) -> dict[str, bool]:
    """Asked for as by a person, and computed here, by two processes at once."""
    from dashboard.evaluation.chaos.at_once import Meeting, compute_at_once
    from dashboard.management.answers import group_named

    return compute_at_once(group_named(name), Meeting(Path(folder), me))


def switch(name: str, mode: str) -> int:
    """Who coordinates from now on; the mode_epoch of then."""
    from dashboard.actions import coordination
    from dashboard.management.answers import by_command, group_named

    by = by_command("chaos")
    return coordination.switch(
        group_named(name), coordination.mode_named(mode), by
    ).after.mode_epoch


def switch_late(name: str, mode: str, epoch: str) -> bool:
    """Whether Redis takes a switch of who read the mode_epoch of before."""
    from assignment.scripts.dashboard_side import set_mode
    from assignment.scripts.group_read import Purpose
    from assignment.types import Coordination, Epoch
    from dashboard.live import groups as live
    from dashboard.live.scripts import run

    expected = Epoch(live.read(name, Purpose.LOOK).meta.incarnation, int(epoch))
    return run(set_mode(expected, Coordination(mode), "chaos", "a fault"), name).done


def drain(name: str, member: str, events: str) -> list[str]:
    """Told by a scale-down to leave, once so many events were applied: a process that had to start
    first would be late.
    """
    from dashboard.actions import scale_down
    from dashboard.live.connection import sync_client
    from dashboard.management.answers import by_command, group_named

    group, applied = group_named(name), GroupKeys(name).applied
    while sum(int(v.split(b" ")[0]) for v in sync_client().hvals(applied)) < int(events):
        time.sleep(LOOK_EVERY_S)
    return sorted(scale_down.start(group, by_command(), members=[member]).members)


ACTS: dict[str, Callable[..., Any]] = {
    "targets": targets,
    "strategy": strategy,
    "compute": compute,
    "switch": switch,
    "switch_late": switch_late,
    "drain": drain,
}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    print(json.dumps(ACTS[sys.argv[1]](*sys.argv[2:])))


if __name__ == "__main__":
    main()
