"""GET / says at a glance what is well and what needs attention."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.live.attention import RULES, WORDS
from dashboard.models import Group, Occurrence, Sample
from dashboard.pages.views.base import now_ms
from tests.dashboard.agents import FakeAgent, make_group
from tests.dashboard.people import granted, logged_in


def test_without_a_group_it_says_how_to_make_one(visitor: Client, store: object) -> None:
    page = visitor.get("/").content.decode()
    assert "No group yet" in page
    assert "manage.py create_group" in page


def test_a_group_that_works_needs_nothing(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get("/").content.decode()
    assert "nothing to do" in page
    assert "4 of 4" in page
    assert f'href="/groups/{group.name}/history/' in page


def test_without_a_fresh_sample_it_is_unknown(visitor: Client, group: Group) -> None:
    page = visitor.get("/").content.decode()
    assert "1 unknown" in page
    assert "no fresh sample" in page


def needs(group: Group, rule: str, **more: object) -> Occurrence:
    values = {"why": "because", "began_at_ms": 1, "seen_at_ms": 2, "raised_at_ms": 2, **more}
    return Occurrence.objects.create(group=group, rule=rule, **values)


def test_what_needs_attention_comes_worst_first_and_acknowledged_last(
    visitor: Client, group: Group
) -> None:
    for word in reversed(WORDS[1:]):
        needs(group, word)
    needs(group, WORDS[0], acknowledged_at_ms=3, acknowledged_by="ann", note="I am on it")
    answer = visitor.get("/")
    shown = [one.rule.word for one in answer.context["attention"]]
    assert shown == [*WORDS[1:], WORDS[0]]
    page = answer.content.decode()
    assert "<title>(6) Overview · Evenkeel</title>" in page
    assert "6 need attention" in page
    assert "I am on it" in page
    for rule in RULES:
        assert rule.step in page


def test_what_may_not_be_seen_is_not_counted(group: Group, user: User) -> None:
    needs(group, "conflict")
    client = logged_in(user)
    assert client.get("/attention.json").json() == {"count": 1}
    granted(user, "viewer", group.name, "deny")
    assert client.get("/attention.json").json() == {"count": 0}
    page = client.get("/").content.decode()
    assert "<title>Overview" in page and group.name not in page


@pytest.mark.parametrize("groups", [1, 4])
def test_queries_do_not_grow_with_the_groups(
    visitor: Client,
    store: object,
    group_name: str,
    groups: int,
    django_assert_max_num_queries: object,
) -> None:
    for i in range(groups):
        made = make_group(f"{group_name}-{i}")
        Sample.objects.create(group=made, at_ms=now_ms(), members=1, owned=4)
    with django_assert_max_num_queries(10):  # type: ignore[operator]
        assert visitor.get("/").status_code == 200


def test_the_fragment_is_the_page_without_its_frame(visitor: Client, group: Group) -> None:
    fragment = visitor.get("/?fragment=overview").content.decode()
    assert "<html" not in fragment
    assert fragment.strip() in visitor.get("/").content.decode()
