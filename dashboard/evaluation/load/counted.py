"""What the database of a run has, in JSON: `python -m dashboard.evaluation.load.counted`.

{"rows": in all, "rebalances", "samples": how many of these, "bytes": that the database takes, its
indexes included}.
"""

import json
import os

import django


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from django.apps import apps

    of = {one._meta.label: one._default_manager.count() for one in apps.get_models()}
    kinds = {"rebalances": of["dashboard.Rebalance"], "samples": of["dashboard.Sample"]}
    print(json.dumps({"rows": sum(of.values()), **kinds, "bytes": database_bytes()}))


def database_bytes() -> int:
    """Of the pages in use: what SQLite has freed it takes again."""
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_database_size(current_database())")
            return int(cursor.fetchone()[0])
        found = {}
        for name in ("page_count", "freelist_count", "page_size"):
            cursor.execute(f"PRAGMA {name}")
            found[name] = int(cursor.fetchone()[0])
    return (found["page_count"] - found["freelist_count"]) * found["page_size"]


if __name__ == "__main__":
    main()
