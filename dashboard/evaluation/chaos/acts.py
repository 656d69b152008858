"""What a run asks of the product or its database, in a process of its own.

    python -m dashboard.evaluation.chaos.acts ACT GROUP [ARGUMENT ...]

The last line is the answer in JSON.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import django

PHASES = ("detect", "compute", "deliver", "revoke", "acquire", "first_effect", "total")


def targets(name: str) -> list[dict[str, Any]]:
    """In the order of their epochs."""
    from dashboard.models import Rebalance

    rows = Rebalance.objects.filter(group__name=name).order_by("incarnation", "target_epoch")
    return [
        {
            "incarnation": row.incarnation,
            "epoch": row.target_epoch,
            "at_ms": row.at_ms,
            "cause": row.cause,
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


def rebalance(name: str) -> str:
    """Asked for as by a person, and computed here, beside whoever else does."""
    from dashboard.actions import groups
    from dashboard.coordinator import running
    from dashboard.management.answers import by_command, group_named

    group = group_named(name)
    groups.request_rebalance(group, by_command(), strategy=group.values.strategy)
    return running.rebalance(name)


def switch(name: str, mode: str, epoch: str = "") -> dict[str, Any]:
    """Who coordinates from now on; `epoch`: the mode_epoch that is expected, "" for that of now."""
    from assignment.scripts.dashboard_side import set_mode
    from assignment.scripts.group_read import Purpose
    from assignment.types import Coordination, Epoch
    from dashboard.live import groups as live
    from dashboard.live.scripts import run

    there = live.read(name, Purpose.LOOK).meta.mode
    expected = Epoch(there.incarnation, int(epoch)) if epoch else there
    found = run(set_mode(expected, Coordination(mode), "chaos", "a fault"), name)
    return {"done": found.done, "mode_epoch": found.epoch.number}


ACTS: dict[str, Callable[..., Any]] = {
    "targets": targets,
    "strategy": strategy,
    "rebalance": rebalance,
    "switch": switch,
}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    print(json.dumps(ACTS[sys.argv[1]](*sys.argv[2:])))


if __name__ == "__main__":
    main()
