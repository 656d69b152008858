"""People with tokens, and a group that works."""

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from dashboard.models import Group
from tests.dashboard.agents import FakeAgent
from tests.dashboard.api_v1.program import Program
from tests.dashboard.scenes import staffed


@pytest.fixture(autouse=True)
def many_a_second(settings: Settings) -> None:
    settings.API_RATE_PER_SECOND = 1_000_000


@pytest.fixture
def ann(db: None) -> User:
    """May everything."""
    return User.objects.create(username="ann", is_superuser=True)


@pytest.fixture
def bob(db: None) -> User:
    """To whom nothing is granted."""
    return User.objects.create(username="bob")


@pytest.fixture
def program(ann: User) -> Program:
    return Program.of(ann)


@pytest.fixture
def agents(group: Group) -> list[FakeAgent]:
    """Two members that own two partitions each."""
    return staffed(group, "a", "b")
