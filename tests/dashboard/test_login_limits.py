"""Failed log ins lock out a pair of user name and address, a user name, an address."""

import pytest
from axes.handlers.proxy import AxesProxyHandler
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.models import AuditEntry

pytestmark = pytest.mark.django_db
PASSWORD = "even-keel-even"


@pytest.fixture(autouse=True)
def ann(settings: Settings) -> User:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick
    AxesProxyHandler.reset_attempts()
    return User.objects.create_user("ann", password=PASSWORD)


def log_in(name: str, password: str, address: str = "10.0.0.1") -> int:
    values = {"username": name, "password": password}
    return Client().post("/login/", values, REMOTE_ADDR=address).status_code


def test_ten_failures_of_a_pair_lock_it_out() -> None:
    answers = [log_in("ann", "no") for _ in range(12)]
    assert answers.index(429) == 9
    assert log_in("ann", PASSWORD) == 429
    entry = AuditEntry.objects.get(action="lockout")
    assert (entry.actor, entry.address) == ("ann", "10.0.0.1")
    assert log_in("ann", PASSWORD, "10.0.0.2") == 302


def test_many_addresses_do_not_get_around_the_limit_of_a_name(settings: Settings) -> None:
    settings.LOGIN_LIMITS = (10, 12, 50)
    answers = [log_in("ann", "no", f"10.0.1.{n}") for n in range(14)]
    assert answers.index(429) == 11
    assert log_in("ann", PASSWORD, "10.0.9.9") == 429


def test_many_names_do_not_get_around_the_limit_of_an_address(settings: Settings) -> None:
    settings.LOGIN_LIMITS = (10, 30, 12)
    answers = [log_in(f"user-{n}", "no") for n in range(14)]
    assert answers.index(429) == 11
    assert log_in("ann", PASSWORD) == 429
    assert log_in("ann", PASSWORD, "10.0.0.2") == 302


def test_who_logs_in_clears_no_other_name_of_the_address(settings: Settings) -> None:
    settings.LOGIN_LIMITS = (10, 30, 6)
    for n in range(5):
        assert log_in(f"user-{n}", "no") == 200
    assert log_in("ann", PASSWORD) == 302
    assert log_in("user-5", "no") == 429


@pytest.mark.parametrize("name", ["x" * 151, "x" * 5_000, "ann\0", "\0" * 300, "ﬃ" * 100])
def test_a_name_that_no_user_can_have_is_counted_as_any_other(
    settings: Settings, name: str
) -> None:
    """PostgreSQL refuses what is longer than its column, and a NUL."""
    settings.LOGIN_LIMITS = (10, 30, 4)
    assert [log_in(f"{name}{n}", "no") for n in range(3)] == [200] * 3
    assert AuditEntry.objects.filter(action="failed log in", address="10.0.0.1").exists()
    assert log_in(name, "no") == 429
    assert log_in("ann", PASSWORD) == 429
    assert log_in("ann", PASSWORD, "10.0.0.2") == 302
