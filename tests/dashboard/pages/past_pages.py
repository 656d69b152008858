"""Pages as of a moment, and what the events of the locks say of it."""

import re

from django.test import Client

from assignment.scripts.lock_events import LockEvent
from dashboard.models import Group
from tests.dashboard.test_ownership_maps import replayed

ROW = re.compile(r'<tr data-number="(\d+)" data-owner="([^"]*)"\s+data-fence="([^"]*)"')
Events = list[LockEvent]


def page(visitor: Client, group: Group, query: str, tab: str = "") -> str:
    answer = visitor.get(f"/groups/{group.name}/{tab}{query}")
    assert answer.status_code == 200, answer.content.decode()[:2_000]
    return answer.content.decode()


def shown(text: str) -> dict[int, tuple[str, int]]:
    return {int(n): (owner, int(fence)) for n, owner, fence in ROW.findall(text) if owner}


def replay(events: Events, at_ms: int) -> dict[int, tuple[str, int]]:
    return {n: cell[:2] for n, cell in replayed(events, at_ms).items()}
