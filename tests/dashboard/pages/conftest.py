"""Somebody who is logged in, and a group that works."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.models import Group
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import staffed


@pytest.fixture
def user(db: None, settings: Settings) -> User:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick
    return User.objects.create_user("ann", password="even-keel-even")


@pytest.fixture
def visitor(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def agents(group: Group) -> list[FakeAgent]:
    """Two members that own two partitions each."""
    return staffed(group, "a", "b")
