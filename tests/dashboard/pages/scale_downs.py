"""Scale-downs as pages show them: where they are, and one that was started there."""

from typing import Any

from dashboard.actions import scale_down
from dashboard.models import AuditSource, ScaleDown
from dashboard.records.audit import By
from tests.dashboard.scaling import Scene


def wizard(scene: Scene) -> str:
    return f"/groups/{scene.group.name}/scale-down/"


def text_of(answer: Any) -> str:
    assert answer.status_code == 200
    return str(answer.content.decode())


def address(scene: Scene, row: ScaleDown) -> str:
    return f"{wizard(scene)}{row.pk}/"


def started(scene: Scene, *members: str, **more: Any) -> ScaleDown:
    """And told: the members have heard of it, and learners are placed."""
    by = By("ann", AuditSource.PAGE, more.pop("reason", "night shift"))
    asked: dict[str, Any] = {"timeout_ms": 600_000} | more
    row = scale_down.start(scene.group, members=members, by=by, **asked)
    scene.round()
    return row
