"""What `up` makes before anything else runs: the operator, and the group of the demo."""

from argparse import Namespace
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from dashboard.actions.groups import Refused
from dashboard.demo.prepare import make_operator, prepare, read_login, shown_login

pytestmark = pytest.mark.django_db


@pytest.fixture
def login(tmp_path: Path, settings: Settings) -> Path:
    """Of an operator that a first `up` has made."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # quick
    make_operator(tmp_path / "login")
    return tmp_path / "login"


def operator() -> User:
    return User.objects.get(username="operator")


def test_a_second_start_keeps_the_password(login: Path) -> None:
    before = login.read_text()
    make_operator(login)
    assert login.read_text() == before
    assert operator().check_password(read_login(login)[1])
    assert shown_login(login) == f"login: operator  password: {read_login(login)[1]}"


def test_a_password_that_was_changed_is_not_set_back(login: Path) -> None:
    first = read_login(login)[1]
    user = operator()
    user.set_password("changed by its owner")
    user.save()
    for _ in range(2):
        make_operator(login)
        assert operator().check_password("changed by its owner")
    assert first not in login.read_text()
    assert f"password: as it was changed (for a new one delete {login}" in shown_login(login)


def test_who_deletes_the_file_gets_a_new_password(login: Path) -> None:
    first = read_login(login)[1]
    login.unlink()
    make_operator(login)
    assert read_login(login)[1] != first
    assert operator().check_password(read_login(login)[1])


@pytest.mark.parametrize("changed", [False, True])
def test_a_new_database_gets_an_operator(login: Path, changed: bool) -> None:
    if changed:
        user = operator()
        user.set_password("changed by its owner")
        user.save()
        make_operator(login)
    operator().delete()
    make_operator(login)
    assert operator().check_password(read_login(login)[1])
    assert operator().is_superuser


def test_no_demo_in_production(settings: Settings) -> None:
    settings.DEVELOPMENT = False
    with pytest.raises(Refused, match="leave EVENKEEL_HOSTS out, or give --no-demo"):
        prepare(Namespace(group="flights"))
