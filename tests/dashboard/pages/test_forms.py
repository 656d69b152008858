"""What is sent and is not known is an error; errors name what was typed, but for passwords."""

import pytest
from django.test import Client

from dashboard.models import AgentToken, AuditEntry, Group
from dashboard.pages.forms import NewUserForm
from tests.dashboard.agents import FakeAgent


@pytest.mark.parametrize(
    ("address", "values"),
    [
        ("settings/?do=swich", {}),
        ("partitions/0/?do=skp", {"entry": "1-1"}),
        ("tokens/", {"do": "creat", "name": "x"}),
        ("tokens/", {"name": "x"}),
        ("tokens/", {"do": "revoke", "token": "1", "all": "1"}),
    ],
)
def test_what_is_to_be_done_is_known_or_an_error(
    visitor: Client, group: Group, address: str, values: dict[str, str]
) -> None:
    entries = AuditEntry.objects.count()
    answer = visitor.post(f"/groups/{group.name}/{address}", values)
    assert answer.status_code == 400
    page = answer.content.decode()
    assert "Nothing was changed." in page
    assert any(word in page for word in ("swich", "skp", "creat", "do= is missing", "all"))
    assert (AuditEntry.objects.count(), AgentToken.objects.count()) == (entries, 0)


@pytest.mark.parametrize(
    "address", ["settings/?do=swich", "partitions/0/?do=skp", "tokens/?do=creat"]
)
def test_an_unknown_wish_in_an_address_is_an_error_too(
    visitor: Client, group: Group, address: str
) -> None:
    answer = visitor.get(f"/groups/{group.name}/{address}")
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("address", "values"),
    [
        ("/groups/{}/settings/", {"lease": "9"}),
        ("/groups/{}/rebalance/", {"strategy": "sticky", "reason": "x", "stratgy": "range"}),
        ("/groups/{}/tokens/", {"do": "create", "name": "x", "expires": "never"}),
        ("/new-group/", {"name": "x", "partition": "9"}),
        ("/evaluations/", {"fault": "minor-kill", "agent": "9"}),
    ],
)
def test_a_field_that_is_not_known_is_named(
    visitor: Client,
    group: Group,
    agents: list[FakeAgent],
    address: str,
    values: dict[str, str],
) -> None:
    entries = AuditEntry.objects.count()
    page = visitor.post(address.format(group.name), values).content.decode()
    unknown = [name for name in values if name not in ("strategy", "reason", "do", "name", "fault")]
    assert f"there is no field &#x27;{unknown[0]}&#x27;" in page
    assert AuditEntry.objects.count() == entries


@pytest.mark.parametrize(
    ("address", "values", "said"),
    [
        ("settings/", {"lease_ms": "soon"}, "&#x27;soon&#x27;: Enter a whole number."),
        ("settings/", {"lease_ms": "1"}, "&#x27;1&#x27;: Ensure this value is greater than"),
        ("settings/", {"strategy": "shoe"}, "shoe is not one of the available choices"),
        ("tokens/", {"do": "create", "name": "x", "days": "0"}, "&#x27;0&#x27;: Ensure"),
        ("tokens/", {"do": "create", "name": "x" * 101}, "x&#x27;: Ensure this value has at most"),
    ],
)
def test_an_error_names_what_was_typed(
    visitor: Client, group: Group, address: str, values: dict[str, str], said: str
) -> None:
    assert said in visitor.post(f"/groups/{group.name}/{address}", values).content.decode()


def test_a_password_is_never_named() -> None:
    form = NewUserForm({"name": "x", "password": "long" * 100})
    assert "long" not in str(form.errors) and "at most 200 characters" in str(form.errors)
