"""What /metrics told, and a group that has something to tell."""

from typing import Any

from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as Told

from dashboard import coordinator
from dashboard.models import Group
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import settle, staffed

TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def joined_late(group: Group) -> None:
    agents = [*staffed(group, "a"), FakeAgent(group, "b")]
    agents[-1].start()
    settle(group, agents)
    coordinator.sample()


def told_to(client: Client) -> list[Any]:
    answer = client.get("/metrics", headers=BEARER)
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return list(text_string_to_metric_families(answer.content.decode()))


def samples(found: list[Any]) -> list[Told]:
    return [sample for family in found for sample in family.samples]


def value(found: list[Any], name: str, **labels: str) -> float | None:
    """None: there is no such series."""
    for sample in samples(found):
        if sample.name == f"evenkeel_{name}" and sample.labels == labels:
            return sample.value
    return None
