"""Every page asks who is there; none of them runs what a visitor typed."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.models import Group
from tests.dashboard.agents import FakeAgent

PLAIN = (
    "overview",
    "groups",
    "groups_csv",
    "new_group",
    "audit",
    "status",
    "audit_csv",
    "audit_lines",
    "producers",
    "evaluations",
    "webhooks",
    "approval_rules",
    "search",
    "attention_count",
)
OF_GROUP = (
    *("group", "group_ownership", "group_members", "group_partitions", "group_balance"),
    *("group_charts", "group_history", "rebalances_csv", "ownership_csv", "group_settings"),
    *("group_plans", "group_attention"),
    *("rebalance_preview", "tokens", "group_snapshot"),
    "dead_letters",
)


def addresses(group: Group) -> list[str]:
    row = group.rebalances.get()
    return [
        *(reverse(name) for name in PLAIN),
        *(reverse(name, args=[group.name]) for name in OF_GROUP),
        reverse("partition", args=[group.name, 0]),
        reverse("rebalance", args=[group.name, row.incarnation, row.target_epoch]),
    ]


def test_a_stranger_is_sent_to_the_login(group: Group, agents: list[FakeAgent]) -> None:
    for address in addresses(group):
        answer = Client().get(address)
        assert answer.status_code == 302, address
        assert answer["Location"].startswith("/login/?next="), address


def test_every_page_answers_and_has_nothing_inline(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    for address in addresses(group):
        answer = visitor.get(address)
        assert answer.status_code == 200, address
        text = answer.getvalue().decode()
        scripts = re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", text)
        assert all('type="application/json"' in script for script in scripts), address
        assert not re.search(r"<[a-z][^>]*\s(style|on[a-z]+)=", text), address
        assert "unsafe-inline" not in answer["Content-Security-Policy"].partition("script-src")[2]


@pytest.mark.parametrize("name", OF_GROUP)
def test_an_unknown_group_is_not_found(visitor: Client, store: object, name: str) -> None:
    answer = visitor.get(reverse(name, args=["nobody-made-this"]))
    assert answer.status_code == 404
    if "json" not in name:
        assert b"There is nothing at this address" in answer.content
        assert b'aria-label="Main"' in answer.content and b"As curl" not in answer.content


def test_redis_away_is_said_and_nothing_is_shown_as_zero(
    visitor: Client, group: Group, agents: list[FakeAgent], settings: object
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"  # type: ignore[attr-defined]
    for name in OF_GROUP:
        answer = visitor.get(reverse(name, args=[group.name]))
        assert answer.status_code == (503 if name == "group_snapshot" else 200), name
    page = visitor.get(reverse("group", args=[group.name])).content.decode()
    assert "does not answer" in page
    assert page.count("<b>—</b>") == 6


def test_logging_in_and_out(client: Client, user: object) -> None:
    wrong = client.post("/login/", {"username": "ann", "password": "no"})
    assert wrong.status_code == 200
    assert b'role="alert"' in wrong.content
    right = client.post("/login/", {"username": "ann", "password": "even-keel-even"})
    assert (right.status_code, right["Location"]) == (302, "/")
    assert client.get("/").status_code == 200
    assert client.post("/logout/").status_code == 302
    assert client.get("/").status_code == 302


@pytest.mark.parametrize(
    ("choice", "value", "back", "shown"),
    [
        ("theme", "dark", "/groups/", b'data-theme="dark"'),
        ("theme", "light", "//evil.example/", b'data-theme="light"'),
        ("clock", "local", "/groups/", b'data-clock="local"'),
        ("clock", "mars", "/groups/", b'data-clock="utc"'),
    ],
)
def test_what_a_browser_chooses_is_kept(
    visitor: Client, choice: str, value: str, back: str, shown: bytes
) -> None:
    answer = visitor.post(f"/{choice}/", {choice: value, "next": back})
    assert answer["Location"] == ("/groups/" if back == "/groups/" else "/")
    assert shown in visitor.get("/groups/").content
