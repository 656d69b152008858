"""Which Java is taken, and that the wheel's Java starts behind its wrapper."""

import subprocess
from pathlib import Path

import pytest

from agent.spark import java


def fake_java(folder: Path, version: str) -> Path:
    """A program that answers as `java -XshowSettings:properties -version` does."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"#!/bin/sh\nprintf '    java.home = {folder}\\n"
        f"    java.specification.version = {version}\\n' >&2\n"
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_java_home_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare / "named", "21")
    fake_java(bare, "17")
    monkeypatch.setenv("JAVA_HOME", str(bare / "named"))
    assert java.java_home() == bare / "named"


def test_java_on_path_is_taken(bare: Path) -> None:
    fake_java(bare, "17")
    assert java.java_home() == bare


def test_wrong_java_home_is_refused_by_name(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare / "old", "11")
    monkeypatch.setenv("JAVA_HOME", str(bare / "old"))
    with pytest.raises(java.JavaUnsuitable, match=r"JAVA_HOME .*old is Java 11"):
        java.java_home()


def test_wrong_java_on_path_is_refused_where_there_is_no_wheel(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(bare, "1.8")
    monkeypatch.setattr(java, "wheel_home", lambda: None)
    with pytest.raises(java.JavaUnsuitable, match=r"java on PATH .* is Java 1\.8"):
        java.java_home()


def test_wheel_is_taken_where_java_on_path_does_not_fit(bare: Path) -> None:
    fake_java(bare, "11")
    assert java.java_home().parent == bare / "cache" / "evenkeel"


def test_no_java_at_all_says_what_to_do(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "wheel_home", lambda: None)
    with pytest.raises(java.JavaUnsuitable, match="set JAVA_HOME"):
        java.java_home()


def test_wrapped_wheel_starts_with_the_module_that_it_lacks(bare: Path) -> None:
    home = java.java_home()
    assert java.java_home() == home  # made once
    said = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert 'version "25' in said.stderr
