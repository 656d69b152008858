"""A real Chromium, logged in, on a running dashboard. No Chromium is a failure, not a skip."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.async_api import Browser, BrowserContext
from pytest_django.fixtures import Settings

from dashboard.live.connection import close_async_client
from dashboard.models import Group
from tests.dashboard.agents import make_group
from tests.dashboard.conftest import point_at, store  # noqa: F401
from tests.e2e.browser.chromium import launched, log_in
from tests.e2e.browser.stage import Stage, background, web

PASSWORD = "even-keel-even"
PARTITIONS = 12

NewContext = Callable[..., Awaitable[BrowserContext]]


@pytest.fixture
def user(transactional_db: None, settings: Settings) -> User:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick
    return User.objects.create_superuser("ann", password=PASSWORD)


@pytest.fixture
def group(transactional_db: None, store: Any, group_name: str) -> Group:  # noqa: F811
    return make_group(group_name, partitions=PARTITIONS)


@pytest.fixture
async def address(user: User, group: Group) -> AsyncIterator[str]:
    async with web() as address:
        yield address
    await close_async_client()


@pytest.fixture
async def stage(group: Group, address: str) -> AsyncIterator[Stage]:
    """Three members that own four partitions each."""
    made = Stage(group)
    async with background(made.play()):
        for name in ("a", "b", "c"):
            await made.join(name)
        await made.settled()
        yield made


@pytest.fixture
async def chromium(address: str) -> AsyncIterator[Browser]:
    async with launched(address) as browser:
        yield browser


@pytest.fixture
async def logged_in(chromium: Browser, address: str) -> NewContext:
    """Makes contexts that share one session; each is a window of its own, always visible."""
    state = await log_in(chromium, address, "ann", PASSWORD)

    async def new(**options: Any) -> BrowserContext:
        return await chromium.new_context(base_url=address, storage_state=state, **options)

    return new
