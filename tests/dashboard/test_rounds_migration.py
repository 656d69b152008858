"""Rounds that were there before they knew their rebalance."""

import pytest
from django.core.management import call_command

from dashboard.models import Group, Rebalance
from dashboard.records.queries import rebalances

BEFORE = ("dashboard", "0019_flapping")


def stored(group: Group, epoch: int, cause: str, **columns: object) -> None:
    Rebalance.objects.create(
        group=group, target_epoch=epoch, cause=cause, at_ms=epoch * 10, strategy="planner",
        members=2, partitions=4, kept=4, moved=1, target=b"", previous=b"",
        **{"outcome": "done", "finished_at_ms": epoch * 10 + 5, "ownership_gap_ms": 7} | columns,
    )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_rounds_of_old_rebalances_are_put_together() -> None:
    made = {"partitions": 4, "settings": {}, "created_by": "ann"}
    group, other = (Group.objects.create(name=n, stream=n, **made) for n in ("a", "b"))
    stored(other, 1, "ready")
    stored(group, 1, "join", learning=1)
    stored(other, 2, "join")
    stored(group, 2, "ready", outcome="superseded")
    stored(group, 3, "ready")
    stored(group, 4, "leave", outcome="running", finished_at_ms=None, ownership_gap_ms=None)
    call_command("migrate", *BEFORE, verbosity=0)
    call_command("migrate", verbosity=0)
    firsts = group.rebalances.filter(first=None).order_by("target_epoch")
    found = [
        (w.first.target_epoch, w.rounds, w.moved, w.first.ended_at_ms, w.first.gap_in_all_ms)
        for w in rebalances.wholes(list(firsts))
    ]
    assert found == [(1, 3, 3, 35, None), (4, 1, 1, None, None)]
    ends = other.rebalances.order_by("target_epoch").values_list("ended_at_ms", "gap_in_all_ms")
    assert list(ends) == [(15, 7), (25, 7)]
