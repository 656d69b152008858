"""`manage.py test`: every check runs whatever the others say, and each may fail the whole."""

from pathlib import Path

import pytest

from dashboard.management.commands import test as command

PARTS = ("ruff check", "ruff format", "mypy", "pytest")


@pytest.fixture
def fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules in the place of the tools; one whose file is here fails."""
    monkeypatch.setattr(command.settings, "ROOT", tmp_path)
    for name in PARTS:
        (tmp_path / f"{name.replace(' ', '_')}.py").write_text(
            f"import pathlib, sys; print('{name} ran'); sys.exit(pathlib.Path('{name}').exists())"
        )
    monkeypatch.setattr(command, "CHECKS", {n: [n.replace(" ", "_")] for n in PARTS[:2]})
    return tmp_path


@pytest.mark.parametrize("wrong", [(), *((name,) for name in PARTS), PARTS])
def test_whatever_fails_is_named(
    fails: Path, wrong: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    for name in wrong:
        (fails / name).touch()
    if wrong:
        with pytest.raises(SystemExit) as ended:
            command.Command().handle(arguments=[])
        assert ended.value.code == 1
    else:
        command.Command().handle(arguments=[])
    said, told = capfd.readouterr()
    assert all(f"{name} ran" in said for name in PARTS), said + told
    assert set(told.removeprefix("failed: ").strip().split(", ")) == set(wrong or [""])
