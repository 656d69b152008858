"""Writes the status object of a group to a file, twice a second: the supervisor's eyes.

Beside the object of `status` it notes the refused commits and how many lock events history lacks.

python -m dashboard.demo.watch GROUP FILE
"""

import json
import os
import sys
import time
from pathlib import Path

import django

EVERY_S = 0.5


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from dashboard.demo.status import for_checks, for_the_tree, group_status
    from dashboard.live.connection import StoreUnavailable
    from dashboard.models import Group

    group = Group.objects.get(name=sys.argv[1])
    status_file = Path(sys.argv[2])
    fresh = status_file.with_suffix(".new")
    while True:
        try:
            seen = {**for_the_tree(group), **group_status(group), **for_checks(group.name)}
            fresh.write_text(json.dumps(seen))
            fresh.replace(status_file)
        except StoreUnavailable as error:
            print(f"no status: {error}", file=sys.stderr, flush=True)
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
