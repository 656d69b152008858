"""What is sent and is not known is an error; errors name what was typed, but for passwords."""

from html import escape
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import AgentToken, AuditEntry, Group
from dashboard.pages.user_forms import NewUserForm
from dashboard.records.grants import RoleGrant
from tests.dashboard.agents import FakeAgent
from tests.dashboard.people import granted


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
        (
            "settings/",
            {"lease_ms": "soon"},
            "&#x27;soon&#x27; is no duration like 10 s, 5 min or 1 h",
        ),
        ("settings/", {"lease_ms": "1"}, "&#x27;1&#x27;: must be 50 ms or more"),
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


MOMENTS = ("0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "9999-12-31T23:59:59.9999")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "address",
    [
        *(
            "groups/{}/history/?at={}",
            "groups/{}/history/?from={}",
            "groups/{}/partitions/0/?at={}",
        ),
        *("audit/?from={1}", "audit/?to={1}"),
    ],
)
def test_a_moment_that_no_clock_shows_is_named(
    visitor: Client, group: Group, address: str, moment: str
) -> None:
    answer = visitor.get("/" + address.format(group.name, quote(moment)))
    assert answer.status_code == (400 if "?at=" in address else 200)
    assert escape(f"time {moment!r} is not within the years 1 to 9999") in answer.content.decode()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "address",
    ["audit.csv?from={1}", "groups/{0}/history/rebalances.csv?to={1}"],
)
def test_files_leave_such_a_moment_out(
    visitor: Client, group: Group, address: str, moment: str
) -> None:
    answer = visitor.get("/" + address.format(group.name, quote(moment)))
    assert answer.status_code == 200 and answer.getvalue()


@pytest.mark.parametrize(
    "address",
    [
        *("users/?q=", "groups/?q=", "audit/?actor=", "audit/?group=", "audit/?result="),
        *("audit.csv?object=", "groups/{}/history/?cause=", "groups/{}/history/?actor="),
        *("groups/{}/history/?show=ownership&member=", "groups/{}/history/ownership.csv?member="),
    ],
)
def test_a_character_that_no_database_holds_is_named(
    visitor: Client, group: Group, address: str
) -> None:
    """PostgreSQL refuses it, a file's answer had begun by then."""
    answer = visitor.get("/" + address.format(group.name) + "a%00b")
    assert answer.status_code == 200
    page = answer.getvalue().decode()
    assert ".csv" in address or escape(r"'a\x00b' has a character that is in no text here") in page


@pytest.mark.parametrize("text", [r"m\u0000", r"m\ud800"])
@pytest.mark.parametrize(
    ("address", "values"),
    [
        ("/groups/{}/settings/", {}),
        ("/groups/{}/rebalance/", {"reason": "r"}),
        ("/groups/{}/rebalance/", {"reason": "r", "preview": "1"}),
        ("/new-group/", {"name": "another", "partitions": "4"}),
    ],
)
def test_parameters_hold_no_text_that_no_database_holds(
    visitor: Client, group: Group, address: str, values: dict[str, str], text: str
) -> None:
    before = Group.objects.get().settings, group.requests.count()
    typed = {
        "strategy": "config",
        "strategy_parameters": f'{{"config_map": {{"{text}": ["0-3"]}}}}',
    }
    if "settings" in address:
        typed |= {n: str(v) for n, v in before[0].items() if n not in typed and v is not None}
        for name in ("stream", "partitions", "stateful", "learn_partial_rebalance"):
            typed.pop(name)
    if "new-group" in address:
        typed["stream"] = group.stream
    answer = visitor.post(address.format(group.name), typed | values)
    assert answer.status_code == 200
    assert "has a character that cannot be stored" in answer.content.decode()
    assert (Group.objects.get().settings, group.requests.count()) == before


@pytest.mark.parametrize(
    "address",
    [
        *("/theme/", "/clock/", "/audit/verify/", "/adopt-group/nobodys/", "/logout/"),
        "/users/{}/",
    ],
)
def test_an_unknown_field_of_a_button_is_an_error_too(
    visitor: Client, user: User, address: str
) -> None:
    entries = AuditEntry.objects.count()
    values = {"theme": "dark", "zzz": "1"} if "theme" in address else {"zzz": "1"}
    values |= {"do": "revoke", "grant": "1"} if "users" in address else {}
    granted(user, "viewer", pk=1)
    answer = visitor.post(address.format(user.pk), values)
    assert answer.status_code == (200 if "users" in address else 400)
    assert escape("here is no field 'zzz'") in answer.content.decode()
    assert AuditEntry.objects.count() == entries and not visitor.cookies.get("theme")
    assert RoleGrant.objects.exists() and visitor.get("/groups/").status_code == 200


@pytest.mark.parametrize("do", ["grant", "password", "deactivate"])
def test_a_field_of_another_button_is_unknown(visitor: Client, viewer: Client, do: str) -> None:
    bob = User.objects.get(username="bob")
    values = {"do": do, "effect": "allow", "role": "admin", "pattern": "*", "grant": "1"}
    if do != "grant":
        values = {"do": do, "password": "an-even-keel-9", "grant": "1"}
    page = visitor.post(f"/users/{bob.pk}/", values).content.decode()
    assert escape("there is no field 'grant'") in page
    assert not RoleGrant.objects.exists() and User.objects.filter(is_active=False).count() == 0


def test_an_unknown_field_of_a_log_in_is_an_error(user: User) -> None:
    client, values = Client(), {"username": "ann", "password": "even-keel-even", "next": "/"}
    answer = client.post("/login/", values | {"zzz": "1"})
    assert answer.status_code == 200
    assert escape("here is no field 'zzz'") in answer.content.decode()
    assert client.post("/login/", values).status_code == 302
