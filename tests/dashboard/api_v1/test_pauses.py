"""Pausing and resuming by the API."""

from dashboard.models import AuditEntry, Group
from tests.dashboard.api_v1.program import Program, problem, read
from tests.dashboard.scenes import staffed


def test_a_partition_and_its_group_are_paused_and_resumed(program: Program, group: Group) -> None:
    staffed(group, "a")
    path = f"groups/{group.name}"
    found = read(program.post(f"{path}/pause", {"partitions": [2], "reason": "why"}))
    assert found["progress"] == "pausing (0 of 1)"
    assert [(one["number"], one["actor"]) for one in found["partitions"]] == [(2, "ann")]
    assert read(program.post(f"{path}/pause", {}))["group"]["reason"] == ""
    assert "resume the group" in problem(program.post(f"{path}/resume", {"partitions": [0]}), 422)
    assert "no partition 9" in problem(program.post(f"{path}/pause", {"partitions": [9]}), 422)
    assert read(program.post(f"{path}/resume", {}))["states"] == {"2": "pausing"}
    left = read(program.get(f"{path}/pauses"))
    assert left["version"] == 3 and left["group"] is None and not left["changed"]
    entry = AuditEntry.objects.get(action="pause", object=f"{group.stream}:2")
    assert (entry.source, entry.actor, entry.reason) == ("api", "ann", "why")
