"""People with tokens, and a group that works."""

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from tests.dashboard.api_v1.program import Program


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
