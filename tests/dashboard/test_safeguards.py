"""What no process of the dashboard starts with: a DATA that others reach, an open production."""

import grp
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from dashboard import safeguards
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


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is in every group that this process' files are of."""
    mine = pwd.getpwuid(os.geteuid())
    theirs = pwd.struct_passwd(("somebody", "x", 54_321, os.getegid(), "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [mine, theirs])


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o722])
def test_a_data_in_whose_place_others_could_put_another_is_refused_and_the_command_mends_it(
    tmp_path: Path, mode: int
) -> None:
    above = tmp_path / "every body's"
    data = above / "below" / "data"
    data.mkdir(mode=0o700, parents=True)
    above.chmod(mode)
    told = last_line(data)
    assert f"EVENKEEL_DATA {data} lies in {above}, which can be written to by everybody" in told
    assert list(data.iterdir()) == [], "nothing is written to it before"
    subprocess.run(told.rpartition("close it with: ")[2], shell=True, check=True)
    assert last_line(data) == "started"


def test_a_data_that_is_not_there_yet_is_not_made_there(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert "can be written to by everybody" in last_line(tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_who_can_exchange_the_program_gains_nothing_by_exchanging_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a checkout works wherever somebody put it."""
    assert Path(__file__).resolve().parents[2] in safeguards.ABOVE_US
    tmp_path.chmod(0o777)
    monkeypatch.setattr(safeguards, "ABOVE_US", frozenset({tmp_path, *tmp_path.parents}))
    assert keep_private(tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_in_everybodys_temporary_folder_only_its_owner_may_rename_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert last_line(tmp_path / "data") == "started"


def test_a_group_that_others_are_in_is_not_let_in_either(tmp_path: Path, somebody: None) -> None:
    tmp_path.chmod(0o770)
    with pytest.raises(ImproperlyConfigured, match=r"by others of its group \(somebody\)"):
        keep_private(tmp_path / "data")


def test_a_users_own_group_is_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many systems let it write to whatever its user makes."""
    mine = pwd.getpwuid(os.geteuid())
    monkeypatch.setattr(pwd, "getpwall", lambda: [mine])
    monkeypatch.setattr(grp, "getgrall", list)
    tmp_path.chmod(0o770)
    assert keep_private(tmp_path / "data") == tmp_path / "data"


def theirs(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whatever has that name belongs to somebody else."""

    def of(look: Callable[[Path], os.stat_result]) -> Callable[..., os.stat_result]:
        def found(path: Path, **options: Any) -> os.stat_result:
            real = look(path, **options)
            return os.stat_result((*real[:4], 54_321, *real[5:])) if path.name == name else real

        return found

    for look in ("stat", "lstat"):
        monkeypatch.setattr(Path, look, of(getattr(Path, look)))


@pytest.mark.parametrize("name", ["above", "link"])
def test_no_way_to_it_belongs_to_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    data = tmp_path / "above" / "data"
    data.mkdir(mode=0o700, parents=True)
    (tmp_path / "link").symlink_to(data.parent)
    theirs(monkeypatch, name)
    with pytest.raises(ImproperlyConfigured, match=rf"over .*/{name}, which belongs to 54321"):
        keep_private(tmp_path / "link" / "data")


def test_a_link_of_our_own_is_followed_once(tmp_path: Path) -> None:
    """The processes that are started with what it says work in the same folder."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert keep_private(tmp_path / "link") == tmp_path / "real"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ImproperlyConfigured, match="loop cannot be used"):
        keep_private(tmp_path / "loop")


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
        ({"EVENKEEL_URL": "https://"}, "EVENKEEL_URL 'https://'"),
        ({"EVENKEEL_URL": "https:///x"}, "EVENKEEL_URL 'https:///x'"),
        ({"EVENKEEL_ORIGINS": "https://"}, "EVENKEEL_ORIGINS 'https://'"),
        ({"EVENKEEL_DEVELOPMENT": "1", "SECRET_KEY": "x"}, "SECRET_KEY can be guessed"),
        ({"EVENKEEL_DEVELOPMENT": "1", "EVENKEEL_HOSTS": "*"}, "EVENKEEL_HOSTS is '*'"),
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


def test_a_scheme_in_capitals_is_the_same_scheme(tmp_path: Path) -> None:
    url = {"EVENKEEL_URL": "HTTPS://keel.example.org"}
    assert last_line(tmp_path, **PRODUCTION, **url) == "started"


def test_another_name_of_this_machine_is_still_development(tmp_path: Path) -> None:
    shown = "s.DEVELOPMENT"
    assert started(tmp_path, shown, EVENKEEL_HOSTS="127.0.0.2,::1,LOCALHOST").stdout == "True\n"


OPEN, SAID = "lets other machines in", {"EVENKEEL_DEVELOPMENT": "1"}


@pytest.mark.parametrize(
    ("options", "environment", "sentence"),
    [
        ("--host 0.0.0.0", {}, OPEN),
        ("--host ::", {}, OPEN),
        ("--host=10.0.0.1 --port 1", {}, OPEN),
        ("", {"UVICORN_HOST": "0.0.0.0"}, OPEN),
        ("--host 0.0.0.0", SAID | {"SECRET_KEY": "x"}, "SECRET_KEY can be guessed"),
        ("--host 0.0.0.0", SAID, ""),
        ("--host 0.0.0.0", {"EVENKEEL_HOSTS": "keel.example.org"}, ""),
        ("--host 127.0.0.1", {"SECRET_KEY": "x"}, ""),
        ("--host localhost", {}, ""),
        ("--uds somewhere", {}, ""),
        ("", {}, ""),
    ],
)
def test_the_web_process_listens_for_others_only_where_that_was_said(
    tmp_path: Path, options: str, environment: dict[str, str], sentence: str
) -> None:
    """uvicorn itself is not started."""
    run = (
        "import uvicorn; from dashboard.web.__main__ import main;"
        "uvicorn.main.callback = lambda **options: None; main()"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("EVENKEEL_")}
    process = subprocess.run(
        [sys.executable, "-c", run, *options.split()],
        env={**clean, "EVENKEEL_DATA": str(tmp_path), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == (3 if sentence else 0), process.stderr
    assert sentence in process.stderr


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
