"""Makes the groups of a run, each with a token: `python -m dashboard.evaluation.beside.made`.

Standard input: {group: partitions} in JSON. The last line is the answer in JSON: group -> token.
"""

import json
import os
import sys

import django

PARTITIONS = 12
TELL_EVERY = 500  # of many groups, for whoever waits


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from dashboard.actions import groups
    from dashboard.models import AuditSource
    from dashboard.records.audit import By

    by, made = By("evaluation", AuditSource.COMMAND), {}
    wanted: dict[str, int] = json.load(sys.stdin)
    for number, (name, partitions) in enumerate(wanted.items(), start=1):
        group = groups.create_group(
            name, by, stream=name, partitions=partitions, stateful=False, learners_max=0
        )
        made[name] = groups.create_token(group, by).text
        if number % TELL_EVERY == 0:
            print(f"{number} of {len(wanted)} groups", file=sys.stderr, flush=True)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
