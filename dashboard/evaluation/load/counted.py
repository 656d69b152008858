"""How many rebalances the history of a run has: `python -m dashboard.evaluation.load.counted`."""

import json
import os

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from dashboard.models import Rebalance

    print(json.dumps(Rebalance.objects.count()))


if __name__ == "__main__":
    main()
