"""GET / says at a glance what is well and what needs attention."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.actions.roles import EVERYTHING
from dashboard.coordinator import strips
from dashboard.live.attention import RULES, WORDS
from dashboard.models import Group, MapStrip, Occurrence, Sample
from dashboard.pages.views.base import now_ms
from dashboard.records.queries import colours, groups, overview
from tests.dashboard.agents import FakeAgent, make_group
from tests.dashboard.columns import cells_of, live_partition
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
    with django_assert_max_num_queries(14):  # type: ignore[operator]
        assert visitor.get("/").status_code == 200


def test_the_fragment_is_the_page_without_its_frame(visitor: Client, group: Group) -> None:
    fragment = visitor.get("/?fragment=overview").content.decode()
    assert "<html" not in fragment
    assert fragment.strip() in visitor.get("/").content.decode()


# --- tiles and the time line ----------------------------------------------------------------------


def test_a_tile_has_the_groups_map_in_the_colours_of_its_owners(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    hues = colours.of_group(group.pk)
    held = {p.number: hues[agent.member] for agent in agents for p in agent.held}
    expected = "".join(str(held[number]) for number in range(4))
    assert len(set(expected)) == 2
    (tile,) = visitor.get("/").context["tiles"]
    assert tile.cells == expected
    page = visitor.get("/").content.decode()
    assert f'data-cells="{expected}"' in page
    assert f"Map of {group.name}: 4 of 4 partitions owned by 2 members" in page


@pytest.mark.parametrize(
    ("state", "owner", "expected"),
    [
        ("owned", "a", "3"),
        ("acquiring", "a", "3"),
        ("halted", "a", "3"),
        ("unowned", None, "."),
        ("unserved", None, "."),
        ("conflict", "a", "!"),
        ("unknown", None, "?"),
        ("owned", "nobody knows it", "?"),
    ],
)
def test_a_cell_tells_owner_gap_conflict_or_that_nobody_knows(
    state: str, owner: str | None, expected: str
) -> None:
    assert strips.strip(cells_of(live_partition(0, owner, state=state)), {"a": 13}) == expected


def test_an_old_map_is_not_shown(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    Sample.objects.update(at_ms=1)
    (tile,) = visitor.get("/").context["tiles"]
    assert tile.cells == "" and MapStrip.objects.get().cells != ""
    assert "is the Celery worker running?" in visitor.get("/").content.decode()


def test_trends_are_of_samples_and_leave_out_what_is_not_known(store: object, group: Group) -> None:
    now = now_ms()
    for ago, lag, rate in ((700, 9, 9.0), (20, 5, None), (10, None, 2.0), (5, 7, 3.0)):
        Sample.objects.create(
            group=group,
            at_ms=now - ago * 1_000,
            members=1,
            owned=4,
            lag_records=lag,
            events_per_second=rate,
        )
    (tile,) = overview.tiles(groups.rows(now), now)
    assert (list(tile.lag), list(tile.rate)) == ([5, 7], [2.0, 3.0])


def test_a_trend_is_thinned_and_ends_with_the_last() -> None:
    found = overview._thinned([float(n) for n in range(1_000)])
    assert len(found) <= overview.TREND_POINTS and found[-1] == 999.0
    assert found == sorted(found)


def test_a_screen_has_so_many_tiles_and_the_worst_first(
    store: object, group_name: str, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = now_ms()
    for i, owned in enumerate((4, 4, 0)):
        made = make_group(f"{group_name}-{i}")
        Sample.objects.create(group=made, at_ms=now, members=1, owned=owned)
        MapStrip.objects.create(group=made, at_ms=now, cells="0000")
    monkeypatch.setattr(overview, "TILES_MAX", 2)
    monkeypatch.setattr(overview, "CELLS_MAX", 7)
    tiles = overview.tiles(groups.rows(now), now)
    assert [tile.row.group.name[-2:] for tile in tiles] == ["-2", "-0"]
    assert [tile.cells for tile in tiles] == ["0000", ""], "a page has a bound too"


def test_rebalances_of_the_last_hour_are_marks_in_their_place(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    row = group.rebalances.filter(first=None).get()
    (mark,) = overview.marks(EVERYTHING, row.at_ms + 15 * 60_000)
    assert (mark.share, mark.row.pk) == (0.75, row.pk)
    assert overview.marks(EVERYTHING, row.at_ms + 61 * 60_000) == []
    page = visitor.get("/").content.decode()
    assert f"<title>{group.name}: join, " in page


def test_marks_of_what_may_not_be_seen_are_left_out(
    group: Group, agents: list[FakeAgent], user: User
) -> None:
    granted(user, "viewer", group.name, "deny")
    answer = logged_in(user).get("/")
    assert answer.context["marks"] == [] and answer.context["tiles"] == []
