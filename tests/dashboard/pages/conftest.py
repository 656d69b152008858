"""People who are logged in, and a group that works."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.live import groups as live_groups
from dashboard.models import Group
from tests.dashboard.agents import FakeAgent
from tests.dashboard.pages.past_pages import Events
from tests.dashboard.people import logged_in
from tests.dashboard.scenes import settle


@pytest.fixture
def user(db: None, settings: Settings) -> User:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick
    return User.objects.create_user("ann", password="even-keel-even")


@pytest.fixture
def visitor(user: User) -> Client:
    """ann, who may everything."""
    User.objects.filter(pk=user.pk).update(is_superuser=True)
    user.refresh_from_db()
    return logged_in(user)


@pytest.fixture
def viewer(db: None) -> Client:
    """bob, to whom nothing is granted."""
    return logged_in(User.objects.create(username="bob"))


@pytest.fixture
def handed(group: Group, agents: list[FakeAgent]) -> Events:
    """a left, b has everything; then c came."""
    agents[0].leave()
    settle(group, agents[1:])
    third = FakeAgent(group, "c")
    third.start()
    settle(group, [agents[1], third])
    return live_groups.events_after(group.name, "0-0")
