"""What no process of the dashboard starts with: a DATA that others reach, an open production."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from dashboard.safeguards import keep_private
from tests.dashboard.test_settings import ROOT, started

PRODUCTION = {"EVENKEEL_HOSTS": "keel.example.org"}
KEY = "0123456789" * 6
SINGLE_SIGN_ON = {
    "EVENKEEL_SSO_ISSUER": "https://id.example.org",
    "EVENKEEL_SSO_CLIENT_ID": "evenkeel",
    "EVENKEEL_SSO_ROLES": '{"ops": ["operator in team-*", "auditor"]}',
}


def give_secret(folder: Path, mode: int = 0o600) -> None:
    path = folder / "sso_client_secret"
    path.write_text("the-secret\n")
    path.chmod(mode)


def last_line(folder: Path, **environment: str) -> str:
    process = started(folder, "'started'", **environment)
    return (process.stderr or process.stdout).splitlines()[-1]


def test_what_a_process_makes_is_its_owners_alone(tmp_path: Path) -> None:
    data = tmp_path / "above" / "data"
    shown = "s.DATA.joinpath('made').touch(), s.DATA.joinpath('folder').mkdir()"
    assert started(data, shown).returncode == 0
    made = [data.parent, data, data / "folder", data / "made", data / "secret_key"]
    assert [stat.S_IMODE(path.stat().st_mode) & 0o077 for path in made] == [0] * len(made)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o777])
def test_a_data_that_others_reach_is_refused_and_the_command_mends_it(
    tmp_path: Path, mode: int
) -> None:
    data = tmp_path / "my data"
    data.mkdir()
    data.chmod(mode)
    told = last_line(data)
    assert f"EVENKEEL_DATA {data} is open to other users of this machine" in told
    assert list(data.iterdir()) == [], "nothing is written to it before"
    subprocess.run(told.rpartition("close it with: ")[2], shell=True, check=True)
    assert last_line(data) == "started"


def test_a_data_that_is_not_ours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    with pytest.raises(
        ImproperlyConfigured, match=r"belongs to \w+, not to 54321: .*chown -R 5432"
    ):
        keep_private(tmp_path)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"SECRET_KEY": "x"}, "SECRET_KEY can be guessed"),
        ({"SECRET_KEY": "ab" * 40}, "SECRET_KEY can be guessed"),
        ({"SECRET_KEY": f"django-insecure-{KEY}"}, "SECRET_KEY can be guessed"),
        ({"EVENKEEL_HOSTS": "*"}, "EVENKEEL_HOSTS is '*'"),
        ({"EVENKEEL_DEBUG": "1"}, "EVENKEEL_DEBUG is on"),
        ({"EVENKEEL_DEBUG": "1", "EVENKEEL_HOSTS": "*"}, "EVENKEEL_DEBUG is on"),
        (
            {"EVENKEEL_DEBUG": "1", "EVENKEEL_HOSTS": "*", "EVENKEEL_DEVELOPMENT": "1"},
            "EVENKEEL_DEBUG is on",
        ),
        ({"EVENKEEL_ORIGINS": "http://keel.example.org"}, "EVENKEEL_ORIGINS 'http://keel"),
        ({"EVENKEEL_URL": "http://keel.example.org"}, "EVENKEEL_URL 'http://keel"),
        ({"EVENKEEL_URL": "http://[::1"}, "EVENKEEL_URL 'http://[::1'"),
    ],
)
def test_what_is_open_stops_production(
    tmp_path: Path, environment: dict[str, str], sentence: str
) -> None:
    told = last_line(tmp_path, **{**PRODUCTION, **environment})
    assert sentence in told
    assert not environment.get("SECRET_KEY") or environment["SECRET_KEY"] not in told.split()


def test_production_starts_with_a_long_key_and_https_alone(tmp_path: Path) -> None:
    good = {"SECRET_KEY": KEY, "EVENKEEL_URL": "https://keel.example.org"}
    shown = "s.SECURE_SSL_REDIRECT, s.SESSION_COOKIE_SECURE, s.DEBUG"
    assert started(tmp_path, shown, **PRODUCTION, **good).stdout == "True True False\n"
    assert started(tmp_path, shown).stdout == "False False False\n"


@pytest.mark.parametrize("more", [{}, SINGLE_SIGN_ON])
def test_django_finds_nothing_to_deplore_in_production(
    tmp_path: Path, more: dict[str, str]
) -> None:
    give_secret(tmp_path)
    run = "import sys, manage; manage.run_command()"
    process = subprocess.run(
        [sys.executable, "-c", run, "check", "--deploy", "--fail-level", "WARNING"],
        env={**os.environ, "EVENKEEL_DATA": str(tmp_path), **PRODUCTION, **more},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == "System check identified no issues (2 silenced).\n"


def test_single_sign_on_is_off_unless_there_is_an_issuer(tmp_path: Path) -> None:
    shown = "s.SINGLE_SIGN_ON, len(s.AUTHENTICATION_BACKENDS)"
    assert started(tmp_path, shown).stdout == "None 2\n"
    give_secret(tmp_path, 0o440)
    shown = "s.SINGLE_SIGN_ON.secret, len(s.AUTHENTICATION_BACKENDS)"
    assert started(tmp_path, shown, **SINGLE_SIGN_ON).stdout == "the-secret 3\n"


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"EVENKEEL_SSO_ISSUER": "http://id.example.org"}, "EVENKEEL_SSO_ISSUER 'http://id"),
        ({"EVENKEEL_SSO_CLIENT_ID": ""}, "EVENKEEL_SSO_CLIENT_ID is missing"),
        ({"EVENKEEL_SSO_ROLES": '{"ops": "captain"}'}, "there is no role 'captain'"),
        ({"EVENKEEL_SSO_ROLES": ""}, "EVENKEEL_SSO_ROLES is no JSON of the form"),
        ({"EVENKEEL_SSO_SECRET_FILE": "/nowhere"}, "EVENKEEL_SSO_SECRET_FILE /nowhere cannot"),
        (
            {**PRODUCTION, "EVENKEEL_SSO_ISSUER": "http://127.0.0.1:8080"},
            "EVENKEEL_SSO_ISSUER 'http://127.0.0.1:8080' is no address",
        ),
    ],
)
def test_single_sign_on_that_cannot_work_stops_the_process(
    tmp_path: Path, environment: dict[str, str], sentence: str
) -> None:
    give_secret(tmp_path)
    assert sentence in last_line(tmp_path, **{**SINGLE_SIGN_ON, **environment})


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620])
def test_a_client_secret_that_others_reach_is_refused_and_the_command_mends_it(
    tmp_path: Path, mode: int
) -> None:
    give_secret(tmp_path, mode)
    told = last_line(tmp_path, **SINGLE_SIGN_ON)
    assert "EVENKEEL_SSO_SECRET_FILE" in told and "the-secret" not in told
    subprocess.run(told.rpartition("close it with: ")[2], shell=True, check=True)
    assert last_line(tmp_path, **SINGLE_SIGN_ON) == "started"
