"""GET and POST /groups/<name>/attention/, the limits in Settings, and the count in the title."""

import pytest
from django.db import IntegrityError
from django.test import Client

from dashboard.actions import attention as actions
from dashboard.actions.groups import Refused
from dashboard.live.attention import DEFAULTS, LIMITS
from dashboard.models import AttentionLimits, AuditEntry, AuditSource, Group
from dashboard.pages.amounts import exact_span
from dashboard.records.audit import By
from dashboard.records.queries import attention as queries
from tests.dashboard.pages.test_overview import needs


def address(group: Group) -> str:
    return f"/groups/{group.name}/attention/"


def test_without_anything_it_says_where_limits_are_set(visitor: Client, group: Group) -> None:
    page = visitor.get(address(group)).content.decode()
    assert "Nothing needs attention." in page
    assert f'href="/groups/{group.name}/settings/#attention-limits"' in page


def test_who_acknowledges_is_named_with_time_and_note(visitor: Client, group: Group) -> None:
    row = needs(group, "stalled")
    assert "<title>(1) " in visitor.get(address(group)).content.decode()
    sent = {"occurrence": row.pk, "reason": "The disk is full; cleaning up."}
    answer = visitor.post(address(group), sent)
    assert (answer.status_code, answer["Location"]) == (302, address(group))
    row.refresh_from_db()
    assert (row.acknowledged_by, row.note) == ("ann", sent["reason"])
    assert row.acknowledged_at_ms is not None and row.ended_at_ms is None
    page = visitor.get(address(group)).content.decode()
    assert "<title>" + group.name in page and 'class="quiet"' in page
    assert sent["reason"] in page
    entry = AuditEntry.objects.get(action="acknowledge attention")
    assert (entry.actor, entry.group, entry.reason) == ("ann", group.name, sent["reason"])
    assert entry.object == f"{group.name}/stalled"


def test_what_is_over_is_listed_and_counted_no_more(visitor: Client, group: Group) -> None:
    needs(group, "lagging", ended_at_ms=5, why="was behind")
    answer = visitor.get(address(group))
    assert [one.row.why for one in answer.context["over"]] == ["was behind"]
    assert visitor.get("/attention.json").json() == {"count": 0}


def test_what_did_not_last_is_not_shown(visitor: Client, group: Group) -> None:
    needs(group, "lagging", raised_at_ms=None)
    answer = visitor.get(address(group))
    assert not answer.context["attention"] and not answer.context["over"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ended_at_ms": 3}, "is over"),
        ({"raised_at_ms": None}, "is over"),
        ({"acknowledged_at_ms": 3, "acknowledged_by": "bob"}, "was acknowledged by bob already"),
    ],
)
def test_what_cannot_be_acknowledged_is_refused(
    visitor: Client, group: Group, more: dict[str, object], said: str
) -> None:
    row = needs(group, "stalled", **more)
    with pytest.raises(Refused, match=said):
        actions.acknowledge(row, By("ann", AuditSource.PAGE), 9)
    page = visitor.post(address(group), {"occurrence": row.pk, "reason": "x"}).content.decode()
    assert said in page
    assert AuditEntry.objects.filter(result__startswith="refused").count() >= 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [({}, 400), ({"occurrence": "x"}, 404), ({"occurrence": "999999"}, 404)],
)
def test_what_is_not_there_is_named(
    visitor: Client, group: Group, sent: dict[str, str], status: int
) -> None:
    assert visitor.post(address(group), sent).status_code == status


def test_a_field_that_is_not_there_is_named(visitor: Client, group: Group) -> None:
    row = needs(group, "stalled")
    page = visitor.post(address(group), {"occurrence": row.pk, "by": "bob"}).content.decode()
    assert "there is no field &#x27;by&#x27;" in page
    row.refresh_from_db()
    assert not row.is_acknowledged


def test_one_of_another_group_is_not_there(visitor: Client, group: Group) -> None:
    other = Group.objects.create(name="other", stream="s", partitions=1, settings={})
    row = needs(other, "stalled")
    assert visitor.post(address(group), {"occurrence": row.pk}).status_code == 404


def test_the_database_keeps_one_open_occurrence_of_a_rule(group: Group) -> None:
    needs(group, "stalled", ended_at_ms=9)
    needs(group, "stalled")
    with pytest.raises(IntegrityError):
        needs(group, "stalled")


def test_a_group_says_what_it_needs_on_each_of_its_pages(visitor: Client, group: Group) -> None:
    needs(group, "stalled", why="m7 hangs")
    page = visitor.get(f"/groups/{group.name}/members/").content.decode()
    assert "m7 hangs" in page and f'href="{address(group)}#occurrence-' in page


# --- limits ---------------------------------------------------------------------------------------


def typed(**changed: str) -> dict[str, str]:
    shown = {
        name: exact_span(limit.default) if limit.is_span else str(limit.default)
        for name, limit in LIMITS.items()
    }
    return {**shown, **changed}


def test_limits_are_typed_as_people_say_them(visitor: Client, group: Group) -> None:
    where = f"/groups/{group.name}/settings/"
    page = visitor.get(where).content.decode()
    assert 'name="unbalanced_for_ms"' in page and 'value="5 min"' in page
    sent = typed(unbalanced_for_ms="1 h 30 min", lagging_records="20k")
    assert visitor.post(f"{where}?do=attention", sent).status_code == 302
    limits = queries.limits_of(group)
    assert limits == {**DEFAULTS, "unbalanced_for_ms": 5_400_000, "lagging_records": 20_000}
    entry = AuditEntry.objects.get(action="change attention")
    assert entry.before == {"lagging_records": 1_000, "unbalanced_for_ms": 300_000}
    assert entry.after == {"lagging_records": 20_000, "unbalanced_for_ms": 5_400_000}
    assert 'value="1 h 30 min"' in visitor.get(where).content.decode()
    assert AttentionLimits.objects.get().values == entry.after, "the rest follows what is declared"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("stalled_for_ms", "soon", "is no duration"),
        ("stalled_for_ms", "2 d", "must be 1 d or less"),
        ("stalled_members", "0", "must be 1 or more"),
        ("stalled_members", "", "required"),
    ],
)
def test_a_wrong_limit_is_named_and_nothing_is_saved(
    visitor: Client, group: Group, name: str, text: str, said: str
) -> None:
    where = f"/groups/{group.name}/settings/?do=attention"
    answer = visitor.post(where, typed(**{name: text}))
    assert answer.status_code == 200
    assert said in answer.content.decode() and text in answer.content.decode()
    assert queries.limits_of(group) == DEFAULTS


def test_who_may_not_change_settings_changes_no_limit(viewer: Client, group: Group) -> None:
    answer = viewer.post(f"/groups/{group.name}/settings/?do=attention", typed())
    assert answer.status_code == 403
    assert not AttentionLimits.objects.exists()
