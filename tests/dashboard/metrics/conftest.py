"""A dashboard that has a token for its metrics, and a group in it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.models import Group
from dashboard.web.counts import counts
from tests.dashboard.metrics.told import TOKEN, joined_late, told_to


@pytest.fixture(autouse=True)
def token(settings: Settings) -> None:
    settings.METRICS_TOKEN = TOKEN


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    """By tests before."""
    for kept in vars(counts).values():
        kept.clear()


@pytest.fixture
def served(group: Group, client: Client) -> Callable[[], Any]:
    """A group of two members, of which the second took over from the first; all was counted."""
    joined_late(group)
    for result in ("ok", "unauthorized"):
        counts.heartbeat(group.name, result)
    counts.opened(group.name, 2)
    counts.told(group.name, 2)
    counts.resynced(group.name, "slow_browser", 1)
    counts.differed(group.name, 1)
    return lambda: told_to(client)
