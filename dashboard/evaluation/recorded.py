"""What the product recorded of a group: history, its gaps, and the audit's records of what is gone.

    python -m dashboard.evaluation.recorded GROUP

Prints one JSON object, read from the database alone.
"""

import json
import os
import sys
from typing import Any

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    print(json.dumps(recorded(sys.argv[1])))


def recorded(name: str) -> dict[str, Any]:
    """Rows in the order in which they were made."""
    from dashboard.models import Group
    from dashboard.records.audit import losses

    group = Group.objects.get(name=name)
    tenures = group.tenures.order_by("pk").values_list(
        "partition", "member_id", "fence", "ended_ms"
    )
    gaps = group.gaps.order_by("pk").values_list("at_ms", "events_lost")
    audit = losses(group).order_by("pk")
    return {
        "tenures": [list(row) for row in tenures],
        "gaps": list(map(list, gaps)),
        "audit": list(audit.values("pk", "action", "reason", "before", "after", "result")),
    }


if __name__ == "__main__":
    main()
