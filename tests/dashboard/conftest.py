"""The dashboard on a real Redis: the run's own server, under names of the test's own."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from kombu import pools
from pytest_django.fixtures import Settings

from dashboard.celery import QUEUE, app
from dashboard.live.connection import close_async_client, sync_client
from dashboard.models import Group
from dashboard.records import audit, guards
from tests.dashboard.agents import Caller, FakeAgent, make_group, token_of
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import staffed

Point = Callable[[str], None]


def pytest_runtest_teardown() -> None:
    audit.floods.forget()  # what one test tried is not counted for the next


@pytest.fixture(autouse=True)
def anchor_file(settings: Settings, tmp_path: Path) -> Path:
    """A test's database is its own: where another one's audit stood is nothing to it."""
    settings.AUDIT_ANCHORS = tmp_path / "audit_anchors"
    return tmp_path / "audit_anchors"


@pytest.fixture
def unguarded(db: None) -> Iterator[None]:
    """The audit as somebody has it who may change tables."""
    guards.lift(connection)
    yield
    guards.put(connection)


@pytest.fixture
def point_at(settings: Settings, group_name: str) -> Iterator[Point]:
    """Makes this process's dashboard, its sockets and its Celery use the Redis at a URL."""
    before = app.conf.broker_url, app.conf.broker_transport_options

    def point(url: str) -> None:
        settings.REDIS_URL = url
        settings.REDIS_PREFIX = group_name
        settings.CHANNEL_LAYERS = {
            "default": {
                "BACKEND": "dashboard.live.primary.ChannelLayer",
                "CONFIG": {"hosts": [url], "prefix": f"{group_name}:channels"},
            }
        }
        app.conf.broker_url = url
        app.conf.broker_transport_options = {"global_keyprefix": f"{group_name}:celery:"}
        _forget_broker()

    yield point
    _forget_broker()
    app.conf.broker_url, app.conf.broker_transport_options = before


def _forget_broker() -> None:
    """Connections to the broker are kept in the app and in a pool of pools."""
    app.pool.force_close_all()
    app._pool = None
    app.amqp._producer_pool = None
    pools.reset()


@pytest.fixture
def store(point_at: Point, redis_url: str) -> Any:
    """The client of the Redis that the dashboard uses in this test: the run's own server."""
    point_at(redis_url)
    return sync_client()


@pytest.fixture
def published(store: Any, group_name: str) -> Any:
    """How many Celery tasks wait for a worker."""
    return lambda: store.llen(f"{group_name}:celery:{QUEUE}")


@pytest.fixture
def group(store: Any, group_name: str, db: None) -> Group:
    """A group of four partitions whose incarnation is set."""
    return make_group(group_name)


@pytest.fixture
async def whole(store: Any, db: None) -> AsyncIterator[None]:
    """The whole application, whose connection to Redis ends with the test."""
    yield
    await close_async_client()


@pytest.fixture
def caller(group: Group) -> Caller:
    return Caller(group.name, token_of(group))


@pytest.fixture
def agent(group: Group) -> FakeAgent:
    return FakeAgent(group, "a")


@pytest.fixture
def agents(group: Group) -> list[FakeAgent]:
    """Two members that own two partitions each."""
    return staffed(group, "a", "b")


@pytest.fixture
def scene(store: Any, group_name: str, db: None) -> Scene:
    """A stateful group: S1 has 0 3, S2 has 1 4, S3 has 2."""
    return Scene(group_name)
