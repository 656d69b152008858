"""A DATA that others reach: no process of the dashboard starts with it."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from dashboard.safeguards import keep_private
from tests.dashboard.test_settings import started


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
