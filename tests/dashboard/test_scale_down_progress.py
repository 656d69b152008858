"""How far a scale-down has come, and the list of all."""

import pytest

from dashboard import coordinator
from dashboard.actions import scale_down
from dashboard.models import ScaleDownState
from dashboard.records.queries import scale_downs
from dashboard.records.queries.pages import Filters, for_file, page_of
from tests.dashboard.scaling import BY_ANN, Scene, start

pytestmark = pytest.mark.django_db


def test_progress_tells_who_learns_what_and_how_far(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=60_000)
    found = scale_downs.progress(row)
    (leaving,) = found.members
    assert [p.state for p in leaving.partitions] == ["waiting", "waiting"]
    assert found.deadline_ms is not None and 0 < found.deadline_ms - found.now_ms <= 60_000
    assert found.allowed_actions == ("extend", "force", "abort")
    scene.round()
    (leaving,) = scale_downs.progress(row).members
    assert (leaving.member_id, leaving.left, leaving.ready) == ("S2", 2, 0)
    assert (leaving.percent, leaving.eta_ms) == (50.0, 1_000)
    takers = {p.number: p.taker.member for p in leaving.partitions if p.taker}
    assert {m: n for n, m in takers.items()} == {m: n[0] for m, n in scene.learning().items()}
    first = scene.agents[takers[1]]
    first.catch_up()
    (leaving,) = scale_downs.progress(row).members
    assert [(p.state, p.taker and p.taker.percent) for p in leaving.partitions] == [
        ("ready", 100.0), ("learning", 50.0),
    ]  # fmt: skip
    assert (leaving.ready, leaving.percent) == (1, 75.0)
    coordinator.rebalance(scene.group.name)
    (leaving,) = scale_downs.progress(row).members
    assert [p.state for p in leaving.partitions] == ["moving", "learning"]


def test_progress_of_one_that_ended(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=0)
    scene.round()
    scene.round()
    row.refresh_from_db()
    found = scale_downs.progress(row)
    assert (found.deadline_ms, found.allowed_actions, found.left) == (None, (), 0)
    assert [member.outcome for member in found.members] == ["forced"]


def test_lists_of_scale_downs(scene: Scene) -> None:
    first = start(scene, members=["S2"])
    scale_down.abort(first, by=BY_ANN)
    second = start(scene, members=["S3"])
    assert scene.group.running_scale_down == second
    page = page_of(scale_downs.found(scene.group, Filters()), 1)
    assert ([row.pk for row in page.rows], page.older) == ([second.pk], second.pk)
    older = page_of(scale_downs.found(scene.group, Filters(before=page.older)), 1)
    assert [row.pk for row in older.rows] == [first.pk]
    assert [row.state for row in for_file(scale_downs.found(scene.group, Filters()))] == [
        ScaleDownState.RUNNING, ScaleDownState.CANCELLED,
    ]  # fmt: skip


def test_the_rounds_of_a_scale_down(scene: Scene) -> None:
    row = start(scene, members=["S2"])
    assert scale_downs.rounds(row) == []
    scene.round()
    for agent in scene.here:
        agent.catch_up()
    scene.round()
    scene.join("S5")
    scene.round()
    row.refresh_from_db()
    assert [round.cause for round in scale_downs.rounds(row)] == ["ready", "scale-down"]
