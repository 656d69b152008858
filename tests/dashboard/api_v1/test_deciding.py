"""Plans and attention by the API: as on pages, by the same rights."""

import pytest
from django.contrib.auth.models import User

from dashboard.models import Group, Occurrence, PlanState
from tests.dashboard.agents import FakeAgent
from tests.dashboard.api_v1.program import Program, problem, read
from tests.dashboard.people import granted
from tests.dashboard.test_plans import proposed


@pytest.fixture
def path(group: Group) -> str:
    return f"groups/{group.name}"


def test_a_plan_is_read_approved_and_run_by_programs(
    bob: User, group: Group, agents: list[FakeAgent], path: str
) -> None:
    made = proposed(group)
    granted(bob, "approver", group.name)
    program = Program.of(bob)
    (line,) = read(program.get(f"{path}/plans"))["items"]
    assert (line["id"], line["state"], line["digest"]) == (made.pk, "proposed", made.digest)
    one = f"{path}/plans/{made.pk}"
    moves = read(program.get(one))["moves"]
    assert [(m["giver"], m["taker"]) for m in moves] == [("b", "a")]
    assert "looked at" in problem(program.post(f"{one}/approve", {"digest": "0" * 64}), 409)
    found = read(program.post(f"{one}/approve", {"digest": made.digest, "reason": "good"}))
    assert (found["state"], found["approved_by"], found["decision"]) == ("approved", "bob", "good")
    assert problem(program.post(f"{one}/run"), 403)
    granted(bob, "operator", group.name)
    assert read(Program.of(bob).post(f"{one}/run"))["state"] == "running"
    made.refresh_from_db()
    assert (made.state, made.run_by) == (PlanState.RUNNING, "bob")


def test_a_plan_is_rejected_or_cancelled_once(
    program: Program, group: Group, agents: list[FakeAgent], path: str
) -> None:
    one, other = (f"{path}/plans/{proposed(group).pk}" for _ in range(2))
    assert read(program.post(f"{one}/reject", {"reason": "no"}))["state"] == "rejected"
    assert problem(program.post(f"{one}/reject"), 409)
    assert read(program.post(f"{other}/cancel"))["state"] == "cancelled"
    assert problem(program.get(f"{path}/plans/0"), 404)


def test_attention_is_read_and_acknowledged_with_a_note(
    program: Program, group: Group, agents: list[FakeAgent], path: str
) -> None:
    times = {"began_at_ms": 1, "seen_at_ms": 3, "raised_at_ms": 2}
    row = Occurrence.objects.create(group=group, rule="conflict", why="two", **times)
    over = Occurrence.objects.create(group=group, rule="unowned", ended_at_ms=3, **times)
    found = read(program.get(f"{path}/attention"))
    assert [[one["id"] for one in found[name]] for name in ("now", "past")] == [[row.pk], [over.pk]]
    deed = f"{path}/attention/{row.pk}/acknowledge"
    assert read(program.post(deed, {"reason": "seen"}))["acknowledged_by"] == "ann"
    row.refresh_from_db()
    assert (row.note, row.is_acknowledged) == ("seen", True)
    assert "acknowledged by ann already" in problem(program.post(deed), 409)
