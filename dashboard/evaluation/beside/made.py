"""Makes the groups of a run, each with a token: `python -m dashboard.evaluation.beside.made A B`.

The last line is the answer in JSON: group -> token.
"""

import json
import os
import sys

import django

PARTITIONS = 12


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from dashboard.actions import groups
    from dashboard.models import AuditSource
    from dashboard.records.audit import By

    by, made = By("attack_check", AuditSource.COMMAND), {}
    for name in sys.argv[1:]:
        group = groups.create_group(
            name, by, stream=name, partitions=PARTITIONS, stateful=False, learners_max=0
        )
        made[name] = groups.create_token(group, by).text
    print(json.dumps(made))


if __name__ == "__main__":
    main()
