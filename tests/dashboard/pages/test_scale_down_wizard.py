"""/groups/<name>/scale-down/: who would leave, by percentage or by name, and telling them."""

import re
from typing import Any

import pytest
from django.test import Client

from dashboard.models import AuditEntry, Group, ScaleDown
from tests.dashboard.agents import FakeAgent
from tests.dashboard.pages.scale_downs import address, started, text_of, wizard
from tests.dashboard.scaling import Scene

TELL = {"timeout": "10 min", "at_deadline": "force", "eager": "True", "reason": "night shift"}


def reading(page: str) -> str:
    found = re.search(r'<p class="reading"[^>]*>(.*?)</p>', page)
    return re.sub(r"<[^>]*>", "", found[1]) if found else ""


def marked(page: str) -> list[str]:
    return re.findall(r'name="member" value="([^"]+)"[^>]* checked', page)


def test_it_begins_with_a_percentage_at_which_one_leaves(visitor: Client, scene: Scene) -> None:
    page = text_of(visitor.get(wizard(scene)))
    assert reading(page) == "keep 66 % = 2 members; 1 leaves"
    assert marked(page) == ["S3"]
    assert 'name="timeout" value="10 min"' in page
    assert "eager: each as soon as it is ready" in page


@pytest.mark.parametrize(
    ("query", "said", "leave"),
    [
        ({"percent": "66"}, "keep 66 % = 2 members; 1 leaves", ["S3"]),
        ({"percent": "33"}, "keep 33 % = 1 member; 2 leave", ["S2", "S3"]),
        (
            {"percent": "66", "shown": "66", "member": ["S1"]},
            "keep 66 % = 2 members; 1 leaves",
            ["S1"],
        ),
        ({"member": ["S1"]}, "keep 66.7 % = 2 members; 1 leaves", ["S1"]),
        ({"member": ["S1", "S3"]}, "keep 33.3 % = 1 member; 2 leave", ["S1", "S3"]),
    ],
)
def test_both_readings_are_shown_for_what_is_typed_or_marked(
    visitor: Client, scene: Scene, query: Any, said: str, leave: list[str]
) -> None:
    page = text_of(visitor.get(wizard(scene), {"fragment": "leavers", **query}))
    assert "<html" not in page
    assert reading(page) == said
    assert sorted(marked(page)) == leave
    assert not ScaleDown.objects.exists()


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        ("0", "percent 0 is not within 1 and 100"),
        ("101", "percent 101 is not within 1 and 100"),
        ("-5", "percent -5 is not within 1 and 100"),
        ("abc", "percent &#x27;abc&#x27; is not a whole number"),
        ("66.6", "percent &#x27;66.6&#x27; is not a whole number"),
        ("100", "100 % of 3 is everybody."),
    ],
)
def test_a_wrong_percentage_is_refused_beside_its_field(
    visitor: Client, scene: Scene, percent: str, said: str
) -> None:
    values = TELL | {"percent": percent, "shown": "66", "member": ["S3"]}
    page = text_of(visitor.post(wizard(scene), values))
    found = re.search(r'id="percent_errors"[^>]*>(.*?)</p>', page)
    assert found
    assert found[1] == said
    assert reading(page) == ""
    assert not ScaleDown.objects.exists()


@pytest.mark.parametrize(
    ("members", "place", "said"),
    [
        (["S9"], "member_errors", "S9"),
        ([], "member_errors", "Nobody is marked"),
        (["S1", "S2", "S3"], "refusal", "all members would leave"),
    ],
)
def test_wrong_names_are_refused_beside_the_list(
    visitor: Client, scene: Scene, members: list[str], place: str, said: str
) -> None:
    page = text_of(visitor.post(wizard(scene), TELL | {"member": members}))
    found = re.search(rf'id="{place}"[^>]*>(.*?)</p>', page)
    assert found
    assert said in found[1]
    assert not ScaleDown.objects.exists()


def test_all_may_leave_when_that_is_said(visitor: Client, scene: Scene) -> None:
    values = TELL | {"member": ["S1", "S2", "S3"]}
    assert 'name="force_all"' in text_of(visitor.post(wizard(scene), values))
    answer = visitor.post(wizard(scene), values | {"force_all": "on"})
    assert answer.status_code == 302
    assert sorted(scene.scale_down().members) == ["S1", "S2", "S3"]


def test_those_are_told_who_were_shown(visitor: Client, scene: Scene) -> None:
    page = text_of(visitor.post(wizard(scene), {"preview": "percent", "percent": "33"}))
    assert sorted(marked(page)) == ["S2", "S3"]
    values = TELL | {"percent": "33", "shown": "33", "member": ["S2", "S3"]}
    answer = visitor.post(wizard(scene), values)
    row = scene.scale_down()
    assert answer["Location"] == address(scene, row)
    assert (row.percent, sorted(row.members), row.live) == (33, ["S2", "S3"], 3)
    assert (row.timeout_ms, row.at_deadline) == (600_000, "force")
    assert (row.actor, row.source, row.reason) == ("ann", "page", "night shift")
    assert row.told_at_ms is not None
    entry = AuditEntry.objects.get(action="scale down")
    assert (entry.actor, entry.source) == ("ann", "page")


@pytest.mark.parametrize(
    ("members", "percent"), [(["S1"], 66), (["S1", "S2"], None)], ids=["as many", "more"]
)
def test_the_list_can_be_edited(
    visitor: Client, scene: Scene, members: list[str], percent: int | None
) -> None:
    values = TELL | {"percent": "66", "shown": "66", "member": members}
    assert visitor.post(wizard(scene), values).status_code == 302
    row = scene.scale_down()
    assert (sorted(row.members), row.percent) == (members, percent)


def test_a_percentage_that_was_not_looked_at_tells_nobody(visitor: Client, scene: Scene) -> None:
    values = TELL | {"percent": "33", "shown": "66", "member": ["S3"]}
    page = text_of(visitor.post(wizard(scene), values))
    assert "The list was for another percentage" in page
    assert sorted(marked(page)) == ["S2", "S3"]
    assert 'name="shown" value="33"' in page
    assert not ScaleDown.objects.exists()


@pytest.mark.parametrize(
    ("typed", "ms"),
    [("", None), ("0", 0), ("0.5", 30_000), ("1440", 86_400_000), ("1 h 30 min", 5_400_000)],
)
def test_the_deadline(visitor: Client, scene: Scene, typed: str, ms: int | None) -> None:
    visitor.post(wizard(scene), TELL | {"member": ["S3"], "timeout": typed})
    assert scene.scale_down().timeout_ms == ms


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reason": ""}, "This field is required"),
        ({"timeout": "-1"}, "&#x27;-1&#x27; is no duration like 10 s"),
        ({"timeout": "soon"}, "&#x27;soon&#x27; is no duration like 10 s"),
        ({"timeout": "1000000"}, "&#x27;1000000&#x27;: must be 30 d or less"),
        ({"timeout": "inf"}, "&#x27;inf&#x27; is no duration like 10 s"),
        ({"at_deadline": "wait"}, "not one of the available choices"),
        ({"timeout": "0", "at_deadline": "abort"}, "a limit of 0 ms that aborts"),
    ],
)
def test_what_is_wrong_is_said_and_nobody_is_told(
    visitor: Client, scene: Scene, changes: dict[str, str], said: str
) -> None:
    page = text_of(visitor.post(wizard(scene), TELL | {"member": ["S3"]} | changes))
    assert said in page
    assert marked(page) == ["S3"]
    assert not ScaleDown.objects.exists()


def test_stable_is_chosen_with_it(visitor: Client, scene: Scene) -> None:
    visitor.post(wizard(scene), TELL | {"member": ["S3"], "eager": "False"})
    scene.group.refresh_from_db()
    assert scene.group.values.learn_partial_rebalance is False


@pytest.mark.parametrize("query", [{}, {"percent": "50"}, {"member": ["nobody"]}])
def test_an_empty_group_is_a_page_that_says_so(visitor: Client, group: Group, query: Any) -> None:
    address = f"/groups/{group.name}/scale-down/"
    for answer in (visitor.get(address, query), visitor.post(address, TELL | query)):
        page = text_of(answer)
        assert "the group has no live member" in page or "Nobody is marked" in page
        assert "No members." in page
        assert reading(page) == ""
    assert not ScaleDown.objects.exists()


def test_a_member_that_is_not_there_is_named(visitor: Client, scene: Scene) -> None:
    for answer in (
        visitor.get(wizard(scene), {"member": ["nobody"]}),
        visitor.post(wizard(scene), TELL | {"member": ["nobody"]}),
    ):
        assert "no such member: nobody" in text_of(answer)
    assert not ScaleDown.objects.exists()


def test_a_second_one_is_refused_while_one_runs(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2")
    page = text_of(visitor.post(wizard(scene), TELL | {"member": ["S3"]}))
    assert "a scale-down of S2 runs: cancel it first" in page
    assert f'href="{address(scene, row)}"' in page
    assert ScaleDown.objects.count() == 1


def test_a_group_that_is_not_stateful_is_refused(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = text_of(visitor.post(f"/groups/{group.name}/scale-down/", TELL | {"member": ["a"]}))
    assert "is not stateful" in page
    assert not ScaleDown.objects.exists()
