"""?at= on every page of a group: what it was then."""

import re
from datetime import UTC, datetime

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.actions import drafting, plans
from dashboard.actions.attention import change_limits
from dashboard.actions.groups import change_settings
from dashboard.live import groups as live_groups
from dashboard.models import Group, Plan, Tenure
from dashboard.pages import texts
from dashboard.pages.urls import of_group
from dashboard.pages.views import base
from dashboard.records.queries import intervals
from tests.dashboard.agents import FakeAgent
from tests.dashboard.pages.past_pages import Events, page, replay, shown
from tests.dashboard.pages.test_overview import needs
from tests.dashboard.planning import ADA, ANN, BOB
from tests.dashboard.scaling import Scene


def test_the_map_on_both_sides_of_every_change(
    visitor: Client, group: Group, handed: Events
) -> None:
    moments = {event.at_ms + by for event in handed for by in (-1, 0)}
    assert len(moments) > 8
    first = min(event.at_ms for event in handed)
    for at_ms in sorted(at for at in moments if at >= first):
        assert shown(page(visitor, group, f"?at={at_ms}")) == replay(handed, at_ms)


DATA = re.compile(r"\.(csv|json|bin)$|/picture$")  # no pages


def pages_of(group: Group) -> list[str]:
    """Behind the group's address, whatever routes there are."""
    values = {"member_id": "a", "number": 0, "pk": 1, "incarnation": 1, "target_epoch": 1}
    routes = [str(one.pattern) for one in of_group]
    return [
        re.sub(r"<\w+:(\w+)>", lambda found: str(values[found[1]]), route)
        for route in routes
        if not DATA.search(route)
    ]


def test_every_page_says_when_and_nothing_can_be_done(
    visitor: Client, group: Group, handed: Events
) -> None:
    at = texts.exact(handed[3].at_ms)
    assert len(pages_of(group)) > 18
    for tab in pages_of(group):
        text = page(visitor, group, f"?at={at}", tab)
        assert "As of " in text and "not live" in text, tab
        assert f'<a href="/groups/{group.name}/{tab}" data-key="l">Back to live</a>' in text
        actions = re.search(r'id="actions">(.*?)</div>', text, re.DOTALL)
        assert actions
        buttons = re.findall(r"<button[^>]*>", actions[1])
        assert len(buttons) == 5
        assert all(" disabled " in b and f"as of {at}" in b for b in buttons)
        assert "<a " not in actions[1]
        assert "data-socket" not in text
        assert "data-every" not in text
        fields = re.findall(r"<form[^>]*post", text.partition('<main id="content">')[2])
        assert not fields, tab
        answer = visitor.post(f"/groups/{group.name}/{tab}?at={at}", {"reason": "why"})
        assert answer.status_code in (400, 405), tab
    fragment = page(visitor, group, f"?at={at}&fragment=actions")
    assert "not live" in fragment, "the live page's buttons are not those of a moment"


def test_tabs_take_the_moment_along(visitor: Client, group: Group, handed: Events) -> None:
    at = texts.exact(handed[3].at_ms)
    text = page(visitor, group, f"?at={at}")
    for name, _ in base.TABS:
        assert f'href="{reverse(name, args=[group.name])}?at={at}"' in text


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("?at=yesterday", "yesterday"),
        ("?at=9999-01-01", "9999-01-01"),
        ("?at=12", "12"),
        ("?epoch=last", "last"),
        ("?epoch=-1", "-1"),
        ("?epoch=98765", "98765"),
        ("?epoch=7.1", "7.1"),
        ("?epoch=1&at=2026-01-01", "2026-01-01"),
    ],
)
def test_what_is_no_moment_is_named(
    visitor: Client, group: Group, agents: list[FakeAgent], query: str, named: str
) -> None:
    for tab in (*pages_of(group), "map.bin", "history/rebalances.csv"):
        answer = visitor.get(f"/groups/{group.name}/{tab}{query}")
        assert answer.status_code == 400, tab
        assert named in answer.content.decode(), tab


def test_before_history_it_says_so_and_shows_no_map(
    visitor: Client, group: Group, handed: Events
) -> None:
    text = page(visitor, group, "?at=2001-01-01")
    first = texts.exact(min(event.at_ms for event in handed))
    assert "The history of this group begins at" in text
    assert f'href="?at={first}"' in text
    assert 'id="map"' not in text
    assert text.count("<b>—</b>") == 6
    assert "No partition" not in page(visitor, group, "?at=2001-01-01", "partitions/")


def test_a_group_without_history_says_so(visitor: Client, group: Group) -> None:
    assert "has no history of ownership yet" in page(visitor, group, "?at=2026-01-01")


def test_within_a_gap_of_history_it_says_so(visitor: Client, group: Group, handed: Events) -> None:
    last = max(event.at_ms for event in handed)
    group.gaps.create(at_ms=last + 20, events_lost=3)
    assert "Events of the locks were lost between" in page(visitor, group, f"?at={last + 10}")
    before = page(visitor, group, f"?at={last}")
    assert "were lost" not in before
    after = page(visitor, group, f"?at={last + 20}")
    assert "of 4 partitions nothing was heard since" in after
    group.gaps.update(events_lost=0)  # records of rebalances only
    assert "were lost" not in page(visitor, group, f"?at={last + 10}")


def test_members_are_those_of_that_time(visitor: Client, group: Group, handed: Events) -> None:
    first = group.rebalances.order_by("target_epoch")[0]
    assert first.finished_at_ms
    text = page(visitor, group, f"?at={first.finished_at_ms}", "members/")
    assert re.findall(r'<tr data-member="(\w+)"', text) == ["a", "b"]
    now = page(visitor, group, f"?at={live_groups.redis_now_ms()}", "members/")
    assert re.findall(r'<tr data-member="(\w+)"', now) == ["b", "c"]


def test_partitions_are_filtered_by_who_had_them_then(
    visitor: Client, group: Group, handed: Events
) -> None:
    first = group.rebalances.order_by("target_epoch")[0]
    held = replay(handed, first.finished_at_ms or 0)
    of_a = sorted(n for n, (owner, _) in held.items() if owner == "a")
    text = page(visitor, group, f"?at={first.finished_at_ms}&q=a", "partitions/")
    assert [int(n) for n in re.findall(r'<tr data-number="(\d+)"', text)] == of_a
    later = Tenure.objects.filter(group=group, number=of_a[0], member_id="b").first()
    assert later
    after = page(visitor, group, f"?at={later.started_ms}&q={of_a[0]}", "partitions/")
    assert '<span title="a">a</span>' in after, "who had it before"
    unknown = page(visitor, group, f"?at={first.finished_at_ms}&state=learning", "partitions/")
    assert "is not one of the choices" in unknown


def test_ownership_over_time_ends_at_the_moment(
    visitor: Client, group: Group, handed: Events
) -> None:
    left = Tenure.objects.filter(group=group, member_id="a").earliest("ended_ms")
    at_ms = (left.ended_ms or 0) - 1
    later = Tenure.objects.filter(group=group, started_ms__gt=at_ms)
    assert later
    for tab in ("ownership/", f"partitions/{left.number}/", "members/a/"):
        text = page(visitor, group, f"?at={at_ms}&span=all", tab)
        assert f'data-to="{at_ms + 1}"' in text and 'data-follows="no"' in text, tab
        shown = {
            int(fence) for fence in re.findall(r'data-key="\d+" [^>]*data-fence="(\d+)"', text)
        }
        assert shown and not shown & {row.fence for row in later}, tab
        assert "still" in text and "released" not in text, tab
    file = visitor.get(f"/groups/{group.name}/history/ownership.csv?at={at_ms}").getvalue()
    assert (
        len(file.decode().splitlines())
        == 1 + Tenure.objects.filter(group=group, started_ms__lte=at_ms).count()
    )
    assert b"released" not in file


def test_history_and_charts_end_at_the_moment(
    visitor: Client, group: Group, handed: Events
) -> None:
    first, second, *_ = rows = list(group.rebalances.order_by("target_epoch"))
    within = (second.finished_at_ms or 0) - 1
    text = page(visitor, group, f"?at={within}", "history/")
    assert [int(n) for n in re.findall(r'data-epoch="(\d+)"', text)] == [
        second.target_epoch, first.target_epoch,
    ]  # fmt: skip
    assert text.count("not yet</span>") == 1, "the second goes on"
    assert "running" in text
    answer = visitor.get(f"/groups/{group.name}/balance/?at={within}")
    assert [row.target_epoch for row in answer.context["rows"]] == [
        row.target_epoch for row in rows[1::-1]
    ]
    figures = answer.context["figures"]
    assert figures["flow"]["layout"]["xaxis"]["range"][1] == texts.exact(within)
    assert sum(figures["loads"]["data"][0]["y"]) == len(replay(handed, within))


def test_settings_and_limits_are_those_of_then(
    visitor: Client, group: Group, handed: Events
) -> None:
    before_ms = base.now_ms() - 1  # in this one something may come
    made = Group.objects.filter(pk=group.pk)
    made.update(created_at=datetime.fromtimestamp(before_ms / 1000 - 60, UTC))
    for lease_ms, members in ((15_000, 2), (20_000, 3)):
        change_settings(group, {"lease_ms": lease_ms}, ADA)
        change_limits(group, {"stalled_members": members}, ADA)
    for at_ms, lease, members in ((before_ms, "10 s", "1"), (base.now_ms(), "20 s", "3")):
        text = page(visitor, group, f"?at={at_ms}", "settings/")
        assert text.count("<fieldset disabled>") == 2
        assert _value(text, "lease_ms") == lease
        assert _value(text, "stalled_members") == members
    early = page(visitor, group, f"?at={before_ms - 120_000}", "settings/")
    assert "The settings of then are not known" in early
    assert "Save" not in early


def _value(text: str, name: str) -> str:
    (tag,) = re.findall(rf'<input[^>]*name="{name}"[^>]*>', text)
    return re.search(r'value="([^"]*)"', tag)[1]  # type: ignore[index]


def test_attention_is_what_was_raised_and_acknowledged_then(
    visitor: Client, group: Group, handed: Events
) -> None:
    now_ms = base.now_ms()
    noted = {"acknowledged_at_ms": now_ms - 200, "acknowledged_by": "ann", "note": "seen"}
    times = {"began_at_ms": now_ms - 400, "raised_at_ms": now_ms - 300, "ended_at_ms": now_ms - 100}
    needs(group, "stalled", **times, **noted)
    found = {}
    for ago in (350, 250, 150, 50):
        answer = visitor.get(f"/groups/{group.name}/attention/?at={now_ms - ago}")
        found[ago] = [
            [one.row.acknowledged_by for one in answer.context[name]]
            for name in ("attention", "over")
        ]
    assert found == {350: [[], []], 250: [[""], []], 150: [["ann"], []], 50: [[], ["ann"]]}


def test_plans_are_in_the_state_of_then(visitor: Client, group: Group, handed: Events) -> None:
    uneven = {"config_map": {"b": ["0-2"], "c": [3]}}
    draft = drafting.rebalance(group, "config", uneven)
    proposed = plans.propose(group, draft, ANN)
    plans.approve(proposed, BOB, digest=proposed.digest)
    approved_ms = base.now_ms()
    plans.cancel(Plan.objects.get(), ANN)
    began_ms, ended_ms = approved_ms - 1_000, approved_ms + 1_000  # all was in some milliseconds
    times = [began_ms - 1, began_ms, approved_ms, ended_ms]
    Plan.objects.update(proposed_at_ms=began_ms, ended_at_ms=ended_ms, decided_at_ms=ended_ms)
    states = []
    for at_ms in times:
        rows = visitor.get(f"/groups/{group.name}/plans/?at={at_ms}").context["page"].rows
        states.append([(row.state, row.decided_by) for row in rows])
    assert states == [
        [], [("proposed", "")], [("approved", "bob")], [("cancelled", "ann")],
    ]  # fmt: skip


@pytest.mark.usefixtures("store")
def test_learners_and_standbys_are_those_that_the_target_named(
    visitor: Client, group_name: str
) -> None:
    scene = Scene(group_name, standby_replicas=1)
    scene.round()
    wanted = intervals.replicas_at(scene.group, base.now_ms(), range(2))
    assert all(wanted["standby"].values())
    for tab in ("", "partitions/"):
        text = page(visitor, scene.group, f"?at={base.now_ms()}", tab)
        assert ">Learner</th>" in text and ">Standbys</th>" in text
        rows = dict(re.findall(r'<tr data-number="(\d)"(.*?)</tr>', text, re.DOTALL))
        for number, names in wanted["standby"].items():
            found = re.findall(r'class="replica">.*?title="([^"]+)"', rows[str(number)], re.DOTALL)
            assert found == names, tab


def test_a_group_that_is_hidden_or_not_there_is_not_found(visitor: Client, group: Group) -> None:
    for tab in ("?at=2026-01-01", "?epoch=1&vs=2", "map.bin?at=2026-01-01", "changes.json?epoch=1"):
        assert visitor.get(f"/groups/nobody-made-this/{tab}").status_code == 404
