"""What ends a person's tokens besides revoking them, and what a token's holder cannot make dear."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from dashboard import strict_json
from dashboard.actions import users
from dashboard.api.v1 import idempotency
from dashboard.models import ApiAnswer, AuditSource, Group, Tenure
from dashboard.records.audit import By
from dashboard.records.queries import tenures
from tests.dashboard.api_v1.program import Program, problem, read


def test_a_new_password_ends_them(ann: User, program: Program) -> None:
    read(program.get("groups"))
    users.set_password(ann, "another-even-keel", By("ann", AuditSource.PAGE))
    problem(program.get("groups"), 401)


@pytest.mark.parametrize(("days", "status"), [(6, 200), (8, 401)])
def test_of_somebody_whom_a_provider_knows_they_open_for_a_week(
    ann: User, program: Program, settings: Settings, days: int, status: int
) -> None:
    settings.SINGLE_SIGN_ON = object()
    SocialAccount.objects.create(user=ann, provider="https://idp.example", uid="1")
    User.objects.update(last_login=timezone.now() - timedelta(days=days))
    assert program.get("groups").status_code == status
    settings.SINGLE_SIGN_ON = None
    problem(program.get("groups"), 401)


def test_every_partition_of_a_moment_is_told(
    program: Program, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenures, "SHOWN_MAX", 2)
    for number in range(4):
        Tenure.objects.create(
            group=group, number=number, partition=f"{group.stream}:{number}", member_id="a",
            fence=1, started_ms=1_700_000_000_000,
        )  # fmt: skip
    path = f"groups/{group.name}"
    first = read(program.get(f"{path}/partitions", at="1700000001000", limit=3))
    assert [one["owner"] for one in first["items"]] == ["a"] * 3
    rest = read(
        program.get(f"{path}/partitions", at="1700000001000", limit=3, cursor=first["next"])
    )
    assert ([one["number"] for one in rest["items"]], rest["next"]) == ([3], None)
    (member,) = read(program.get(f"{path}/members", at="1700000001000"))["items"]
    assert member["owned"] == 4


def test_the_document_is_made_once(db: None) -> None:
    from dashboard.api.v1.endpoints import api

    assert Client().get("/api/v1/openapi.json").status_code == 200
    assert api.get_openapi_schema() is api.get_openapi_schema()


def test_many_names_cost_as_much_as_few() -> None:
    """Compared, not looked up: for each name all before it took minutes."""

    class Counted(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Counted(n) for n in range(2_000)]
    with pytest.raises(Exception, match="is there twice"):
        strict_json._object([(name, 0) for name in (*names, Counted(0))])
    assert Counted.compared < 10_000


def test_a_key_whose_first_command_was_refused_meanwhile_is_no_fault(
    program: Program, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(**_: Any) -> None:
        raise idempotency.IntegrityError

    monkeypatch.setattr(ApiAnswer.objects, "create", taken)
    deed = f"groups/{group.name}/rebalances"
    assert "just refused" in problem(program.post(deed, key="k"), 409)
