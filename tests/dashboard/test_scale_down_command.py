"""`manage.py scale_down`: what it prints, and one sentence with exit code 2 for what is refused."""

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from dashboard.models import AuditEntry, AuditSource, ScaleDown
from tests.dashboard.scaling import Scene

pytestmark = pytest.mark.django_db


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    call_command("scale_down", *arguments, "--json")
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The sentence, which is the same as text and as JSON; the exit code is 2."""
    with pytest.raises(CommandError) as as_text:
        call_command("scale_down", *arguments)
    assert as_text.value.returncode == 2
    with pytest.raises(SystemExit) as as_json:
        call_command("scale_down", *arguments, "--json")
    assert as_json.value.code == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"error": str(as_text.value)}
    assert "\n" not in answer["error"]
    return str(as_text.value)


def test_by_percentage(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    name = scene.group.name
    asked = (name, "--percent", "66", "--timeout-ms", "5000", "--reason", "smaller")
    found = ran(capsys, *asked)
    row = ScaleDown.objects.get()
    assert found == {
        "group": name, "members": 3, "percent": 66, "stay": 2, "leave": ["S3"],
        "state": "running", "scale_down": row.pk, "timeout_ms": 5000, "told_at_ms": row.told_at_ms,
        "plan": row.plan_id,
    }  # fmt: skip
    assert (row.reason, row.source) == ("smaller", AuditSource.COMMAND)
    assert ran(capsys, *asked) == found, "the same again is answered with the running one"
    assert AuditEntry.objects.filter(action="scale down").count() == 1


def test_by_name(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("scale_down", scene.group.name, "--members", "S3, S1", "--timeout-ms", "none")
    told = capsys.readouterr().out
    assert told == "3 members: 1 stay, told to leave: S1, S3; running\n"


def test_a_dry_run_changes_nothing(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    name = scene.group.name
    assert ran(capsys, name, "--percent", "33", "--dry-run") == {
        "group": name, "members": 3, "percent": 33, "stay": 1, "leave": ["S2", "S3"],
        "state": "preview",
    }  # fmt: skip
    call_command("scale_down", name, "--percent", "66", "--dry-run")
    assert capsys.readouterr().out == "3 members: 2 stay, would leave: S3; preview\n"
    assert not ScaleDown.objects.exists()


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--percent", "0"), "percent 0 is not within 1 and 100"),
        (("--percent", "101"), "percent 101 is not within 1 and 100"),
        (("--percent", "abc"), "percent 'abc' is not a whole number"),
        (("--percent", "-5"), "percent -5 is not within 1 and 100"),
        (("--percent", ""), "percent '' is not a whole number"),
        (("--members", "S1,nobody"), "no such member: nobody"),
        (("--members", ""), "no member was named"),
        (("--members", "S1,S2,S3"), "all members would leave: that must be forced"),
        (("--members", "S1", "--percent", "50"), "give either --percent or --members"),
        ((), "give either --percent or --members"),
        (("--members", "S1", "--timeout-ms", "soon"), "timeout_ms 'soon' is not a whole number"),
        (("--members", "S1", "--timeout-ms", "-1"), "timeout_ms -1 is not within 0"),
    ],
)
def test_bad_input_is_refused(
    scene: Scene,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    text: str,
    dry_run: bool,
) -> None:
    more = ("--dry-run",) if dry_run else ()
    assert text in refused(capsys, scene.group.name, *arguments, *more)
    assert not ScaleDown.objects.exists()


def test_an_unknown_group_is_refused(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "nobody", "--percent", "50") == "there is no group 'nobody'"


def test_a_second_one_is_refused(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    ran(capsys, scene.group.name, "--percent", "66")
    text = refused(capsys, scene.group.name, "--members", "S1")
    assert text == "another scale-down runs (of S3): cancel it first"
    assert "runs" in refused(capsys, scene.group.name, "--members", "S1", "--dry-run")


def test_a_group_that_is_not_stateful_is_refused(
    store: Any, group_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene(group_name, stateful=False)
    assert "is not stateful" in refused(capsys, scene.group.name, "--percent", "50")


def test_everybody_leaves_when_that_is_forced(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ran(capsys, scene.group.name, "--members", "S1,S2,S3", "--force")
    assert found["stay"] == 0


def test_a_redis_that_is_away_is_another_matter(scene: Scene, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(CommandError, match="nothing runs here") as error:
        call_command("scale_down", scene.group.name, "--percent", "50")
    assert error.value.returncode == 1
