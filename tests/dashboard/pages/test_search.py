"""GET /search/: pages, groups, members and partitions that somebody may see."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import Group, MemberRecord
from dashboard.pages.views.base import now_ms
from dashboard.records.queries import search
from tests.dashboard.agents import FakeAgent, make_group
from tests.dashboard.people import granted, logged_in


def hits(client: Client, text: str) -> list[tuple[str, str]]:
    return [(hit.kind, hit.label) for hit in client.get("/search/", {"q": text}).context["hits"]]


def test_a_part_of_a_name_finds_groups(visitor: Client, store: object, group_name: str) -> None:
    for name in ("orders-eu", "orders-us", "clicks"):
        make_group(f"{group_name}-{name}")
    found = hits(visitor, "ORDERS-")
    assert found == [("group", f"{group_name}-orders-eu"), ("group", f"{group_name}-orders-us")]


def test_members_are_found_once_however_often_they_joined(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    now = now_ms()
    for ago, left in ((3, 2), (1, None)):
        MemberRecord.objects.create(
            group=group, member_id="worker-17", joined_at_ms=now - ago, left_at_ms=left
        )
    long_ago = now - search.GONE_MS - 1
    MemberRecord.objects.create(
        group=group, member_id="worker-18", joined_at_ms=long_ago, left_at_ms=long_ago + 1
    )
    assert hits(visitor, "worker-1") == [("member", f"worker-17 of {group.name}")]


def test_a_partition_is_found_by_stream_and_number(visitor: Client, group: Group) -> None:
    (hit,) = visitor.get("/search/", {"q": f"{group.stream}:3"}).context["hits"]
    assert hit.url == f"/groups/{group.name}/partitions/3/"
    assert hits(visitor, f"{group.stream}:4") == [], "it has four"


def test_a_tab_of_a_group_is_found_by_both_words(visitor: Client, group: Group) -> None:
    (hit,) = visitor.get("/search/", {"q": f"{group.name} sett"}).context["hits"]
    assert hit.url == f"/groups/{group.name}/settings/"


def test_pages_are_those_that_open(visitor: Client, viewer: Client) -> None:
    assert ("page", "Users") in hits(visitor, "user")
    assert hits(viewer, "user") == []
    assert ("page", "Status") in hits(viewer, "stat")


def test_without_a_word_it_begins_with_all(visitor: Client, group: Group) -> None:
    found = hits(visitor, "")
    assert ("page", "Overview") in found and ("group", group.name) in found


def test_what_may_not_be_seen_is_not_found(
    group: Group, agents: list[FakeAgent], user: User
) -> None:
    client, queries = logged_in(user), (group.name, "a", f"{group.stream}:0", f"{group.name} set")
    before = [len(hits(client, text)) for text in queries]
    granted(user, "viewer", group.name, "deny")
    for text, count in zip(queries, before, strict=True):
        found = hits(client, text)
        assert len(found) < count and not any(group.name in label for _, label in found), text


@pytest.mark.parametrize("text", ["%", "_", "\\", "'", "<i>", "x" * 300, "\x00"])
def test_what_is_odd_breaks_nothing(visitor: Client, group: Group, text: str) -> None:
    answer = visitor.get("/search/", {"q": text})
    assert answer.status_code == 200
    assert "<i>" not in answer.content.decode()


def test_lists_are_bounded(visitor: Client, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FOUND_MAX", 2)
    for n in range(5):
        MemberRecord.objects.create(group=group, member_id=f"zz-{n}", joined_at_ms=n + 1)
    assert hits(visitor, "zz-") == [
        ("member", f"zz-4 of {group.name}"),
        ("member", f"zz-3 of {group.name}"),
    ]
