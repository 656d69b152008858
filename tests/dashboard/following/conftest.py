"""A group of six partitions that is followed, and what is read of it."""

from typing import Any

import pytest

from dashboard.live import following, reading
from dashboard.models import Group
from tests.dashboard.agents import make_group


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition a part, and no budget: a look reads one row, the others are by the events."""
    monkeypatch.setattr(reading, "PARTITIONS_MAX", 1)
    monkeypatch.setattr(following, "PARTITIONS_MAX", 1)
    monkeypatch.setattr(following, "BUDGET_S", 0.0)


@pytest.fixture
def six(store: Any, group_name: str, db: None, parts: None) -> Group:
    return make_group(group_name, partitions=6)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, bool]]:
    """Which partitions were read, and whether with the group's keys."""
    asked: list[tuple[Any, bool]] = []
    honest = reading.read

    def counted(question: reading.Question) -> reading.Reading:
        asked.append((question.part, question.keys is not None))
        return honest(question)

    monkeypatch.setattr(reading, "read", counted)
    return asked
