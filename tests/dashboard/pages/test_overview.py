"""GET / says at a glance what is well and what needs attention."""

import pytest
from django.test import Client

from dashboard.live.group_state import ATTENTION
from dashboard.models import Group, Sample
from dashboard.pages.views.base import now_ms
from dashboard.records.queries.groups import GroupRow, attention
from tests.dashboard.agents import FakeAgent, make_group


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


def row(name: str, state: str) -> GroupRow:
    return GroupRow(group=Group(name=name), state=state, why="")


def test_what_needs_attention_comes_worst_first() -> None:
    rows = [row("z", "steady"), *(row(s[0], s) for s in reversed(ATTENTION)), row("y", "unknown")]
    assert [r.state for r in attention(rows)] == list(ATTENTION)


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
