"""What the API does: the same actions as pages and commands, once a key, over the epoch named."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from assignment.scripts.group_read import Purpose
from dashboard import coordinator
from dashboard.api.v1 import idempotency
from dashboard.live import groups as live
from dashboard.live.connection import StoreUnavailable
from dashboard.models import (
    AgentToken,
    ApiAnswer,
    AuditEntry,
    Group,
    Plan,
    RebalanceRequest,
    ScaleDown,
)
from dashboard.web.problems import answer
from tests.dashboard.agents import make_group, tick
from tests.dashboard.api_v1.program import Program, problem, read
from tests.dashboard.scaling import Scene


@pytest.fixture
def path(group: Group) -> str:
    return f"groups/{group.name}"


def test_a_rebalance_is_asked_for_in_ones_name(program: Program, path: str, group: Group) -> None:
    found = read(program.post(f"{path}/rebalances", {"reason": "why"}), 202)
    row = RebalanceRequest.objects.get(plan=found["plan"])
    assert (row.actor, row.reason, row.strategy) == ("ann", "why", "sticky")
    assert (found["kind"], found["state"]) == ("rebalance", "running")
    entry = AuditEntry.objects.get(action="run plan")
    assert (entry.source, entry.actor, entry.address) == ("api", "ann", "127.0.0.1")
    assert entry.token == "t", "whose name was shown"
    assert "'x' is not known" in problem(program.post(f"{path}/rebalances", {"strategy": "x"}), 422)


def test_settings_change_together_or_not_at_all(program: Program, path: str, group: Group) -> None:
    changed = {"settings": {"heartbeat_ms": 2_000, "scale_down_timeout_ms": None}}
    found = read(program.ask("PATCH", f"{path}/settings", changed))
    assert found["settings"]["heartbeat_ms"] == 2_000
    wrong = {"settings": {"heartbeat_ms": 1_000, "lease_ms": 1_000}}
    assert "lease_ms" in problem(program.ask("PATCH", f"{path}/settings", wrong), 422)
    for bad in ({"no": 1}, {"heartbeat_ms": "2"}, {"stream": "s"}, {"trimming": 1}):
        problem(program.ask("PATCH", f"{path}/settings", {"settings": bad}), 422)
    group.refresh_from_db()
    assert group.settings["heartbeat_ms"] == 2_000


def test_coordination_is_switched_over_the_mode_epoch(program: Program, path: str) -> None:
    body = {"coordination": "client", "expected_mode_epoch": 7, "reason": "why"}
    assert "7" in problem(program.post(f"{path}/coordination", body), 409)
    del body["expected_mode_epoch"]
    assert read(program.post(f"{path}/coordination", body))["changed"] is True


def test_a_group_is_made_and_made_once(program: Program, store: Any, group_name: str) -> None:
    body = {"name": group_name, "stream": f"s-{group_name}", "partitions": 2}
    found = read(program.post("groups", body | {"settings": {"stateful": True}}), 201)
    assert found["settings"]["stateful"] is True
    assert "exists already" in problem(program.post("groups", body), 409)


def test_a_stale_epoch_is_refused(program: Program, path: str, group: Group) -> None:
    epoch = live.read(group.name, Purpose.LOOK).meta.group_epoch
    body = {"expected_epoch": epoch + 1}
    said = problem(program.post(f"{path}/rebalances", body), 409)
    assert said == f"group {group.name!r} is at group_epoch {epoch}, not {epoch + 1}"
    assert not RebalanceRequest.objects.exists()
    read(program.post(f"{path}/rebalances", {"expected_epoch": epoch}), 202)


def test_a_scale_down_from_preview_to_abort(program: Program, scene: Scene) -> None:
    path = f"groups/{scene.group.name}/scale-downs"
    preview = read(program.post(f"{path}/preview", {"members": ["S1"]}))
    assert [c["member_id"] for c in preview["candidates"] if c["leaves"]] == ["S1"]
    assert not ScaleDown.objects.exists()
    body = {"members": ["S1"], "timeout_ms": 60_000, "reason": "why"}
    row = read(program.post(path, body), 201)
    assert (row["state"], row["stay"], row["timeout_ms"]) == ("running", 2, 60_000)
    assert row["allowed_actions"] == ["extend", "force", "abort"]
    one = f"{path}/{row['id']}"
    assert read(program.post(f"{one}/extend", {"timeout_ms": 90_000}))["timeout_ms"] == 90_000
    assert read(program.post(f"{one}/force", {"member": "S1"}))["members"]["S1"]["forced"]
    assert "S9" in problem(program.post(f"{one}/force", {"member": "S9"}), 422)
    assert read(program.post(f"{one}/abort"))["state"] in ("cancelled", "done")
    assert [r["id"] for r in read(program.get(path))["items"]] == [row["id"]]
    problem(program.get(f"{path}/999999"), 404)


def test_tokens_of_agents_are_made_rotated_and_revoked(program: Program, path: str) -> None:
    made = read(program.post(f"{path}/tokens", {"name": "night", "days": 7}), 201)
    assert made["secret"].startswith("ekt_")
    again = read(program.post(f"{path}/tokens/{made['id']}/rotate"), 201)
    assert again["secret"] != made["secret"]
    gone = read(program.ask("DELETE", f"{path}/tokens/{again['id']}"))
    assert gone["state"] == "revoked"
    listed = read(program.get(f"{path}/tokens"))["items"]
    assert [row["id"] for row in listed] == [again["id"], made["id"]]
    assert made["secret"] not in str(list(AuditEntry.objects.values()))


def test_tokens_of_producers(program: Program, group: Group) -> None:
    body = {"name": "p", "stream": group.stream}
    made = read(program.post("producer-tokens", body), 201)
    assert made["secret"].startswith("ekp_")
    assert read(program.ask("DELETE", f"producer-tokens/{made['id']}"))["state"] == "revoked"
    assert len(read(program.get("producer-tokens"))["items"]) == 1


def test_damage_is_looked_for_and_mended(program: Program, path: str) -> None:
    assert read(program.get(f"{path}/repair")) == {"applied": False, "findings": []}
    assert read(program.post(f"{path}/repair"))["applied"] is True


def test_redis_away_is_told_as_such(
    program: Program, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> Any:
        raise StoreUnavailable("Redis does not answer")

    monkeypatch.setattr(live, "read", away)
    answered = program.post(f"{path}/rebalances", {"expected_epoch": 1})
    assert problem(answered, 503) == "Redis does not answer"
    assert answered["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"reason": "a", "reason": "b"}', "application/json", 400),
        (b'{"reason": "\\u0000"}', "application/json", 400),
        (b"reason=a", "application/x-www-form-urlencoded", 415),
        (b'{"unknown": 1}', "application/json", 422),
        (b"[]", "application/json", 422),
        (b"", "application/json", 422),
    ],
)
def test_a_body_that_cannot_be_read(
    program: Program, path: str, body: bytes, kind: str, status: int
) -> None:
    answered = program.client.generic(
        "POST", f"/api/v1/{path}/rebalances", body, content_type=kind, headers=program.headers
    )
    assert problem(answered, status)


# --- once a key -----------------------------------------------------------------------------------


def settle_empty(group: Group) -> None:
    """Without members too a plan runs to its end."""
    coordinator.rebalance(group.name)
    tick()
    assert Plan.objects.get().state == "done"


def test_the_same_key_and_body_is_answered_as_before(
    program: Program, path: str, group: Group
) -> None:
    first = program.post(f"{path}/rebalances", {"reason": "a"}, key="k1")
    again = program.post(f"{path}/rebalances", {"reason": "a"}, key="k1")
    assert read(again, 202) == read(first, 202)
    assert ("Idempotent-Replayed" in first, again["Idempotent-Replayed"]) == (False, "true")
    assert RebalanceRequest.objects.count() == 1
    other = program.post(f"{path}/rebalances", {"reason": "b"}, key="k1")
    assert "came with another request" in problem(other, 422)
    settle_empty(group)
    read(program.post(f"{path}/rebalances", {"reason": "b"}, key="k2"), 202)


def test_a_key_is_ones_own(program: Program, path: str, bob: User, group: Group) -> None:
    read(program.post(f"{path}/rebalances", key="k"), 202)
    User.objects.filter(pk=bob.pk).update(is_superuser=True)
    other = Program.of(User.objects.get(pk=bob.pk))
    assert "Idempotent-Replayed" not in other.post(f"{path}/rebalances", key="k")


def test_a_secret_is_not_kept_for_a_key(program: Program, path: str) -> None:
    first = read(program.post(f"{path}/tokens", {"name": "n"}, key="k"), 201)
    again = read(program.post(f"{path}/tokens", {"name": "n"}, key="k"), 201)
    assert again == first | {"secret": None}
    assert AgentToken.objects.count() == 1
    assert first["secret"] not in ApiAnswer.objects.get().body


def test_what_was_refused_leaves_its_key_free(program: Program, path: str) -> None:
    problem(program.post(f"{path}/rebalances", {"strategy": "x"}, key="k"), 422)
    read(program.post(f"{path}/rebalances", key="k"), 202)


def test_of_a_command_whose_end_nobody_knows_it_is_said_that_it_began(
    program: Program, path: str
) -> None:
    program.post(f"{path}/rebalances", key="k")
    ApiAnswer.objects.update(status=None, body="")
    said = problem(program.post(f"{path}/rebalances", key="k"), 409)
    assert "began and did not end yet" in said
    assert RebalanceRequest.objects.count() == 1


def test_keys_are_kept_for_a_day_and_bounded(
    program: Program, path: str, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "KEYS_MAX", 1)
    program.post(f"{path}/rebalances", key="k")
    assert "1 idempotency keys" in problem(program.post(f"{path}/rebalances", key="other"), 429)
    ApiAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
    settle_empty(group)
    read(program.post(f"{path}/rebalances", key="other"), 202)
    assert ApiAnswer.objects.count() == 1
    assert problem(program.post(f"{path}/rebalances", key="k" * 129), 422)


# --- problems ------------------------------------------------------------------------------------


def test_a_problem_has_the_form_of_rfc_9457() -> None:
    found = json.loads(answer(409, "it is taken").content)
    assert found == {
        "type": "about:blank",
        "title": "Conflict",
        "status": 409,
        "detail": "it is taken",
    }


def test_groups_of_others_streams_are_refused(
    bob: User, group: Group, group_name: str, store: Any
) -> None:
    """The matrix decides what the API does too: here the very group."""
    from tests.dashboard.people import granted

    granted(bob, "admin", "mine-*")
    made = make_group(f"other-{group_name}")
    body = {"name": f"mine-{group_name}", "stream": made.stream, "partitions": 4}
    problem(Program.of(bob).post("groups", body), 403)
