"""What another process is told, so that it is of the dashboard that a test runs."""

import os
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from django.db import connection


def own_environment(redis_url: str, prefix: str, data: Path) -> dict[str, str]:
    """With the test's database, which other processes find on disk, or in its PostgreSQL."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        database_url = f"sqlite:///{name}"
    else:
        database_url = urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}"))
    return {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "EVENKEEL_REDIS_PREFIX": prefix,
        "EVENKEEL_DATA": str(data),
    }
