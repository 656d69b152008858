"""Scale-downs whose web, worker or beat is killed anywhere, and whose actions race each other.

Whatever happened: after one undisturbed tick Redis was told exactly what the records say.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import pytest
from django.db import OperationalError, connection

from assignment.coordinator import tick as rules
from assignment.errors import EvenkeelError
from assignment.scripts.dashboard_side import request_rebalance, set_drain
from assignment.scripts.group_read import Purpose
from assignment.types import Coordination, Drain
from dashboard import coordinator
from dashboard.actions import scale_down
from dashboard.coordinator import carrying
from dashboard.coordinator.carrying import Here, carry_out, record_of
from dashboard.live import groups as live_groups
from dashboard.live.scripts import run
from dashboard.models import AuditEntry, AuditSource, Group, ScaleDown, ScaleDownState
from dashboard.records.audit import By
from tests.dashboard.scaling import Scene

MEMBERS = ("S1", "S2", "S3", "S4")
BY_ANN = By("ann", AuditSource.PAGE)
STEPS = (  # a kill before or after each
    (carrying, "run"),
    (live_groups, "redis_now_ms"),
    (live_groups, "read"),
)


class Killed(BaseException):
    """What a SIGKILL is to the code that runs: nothing after it happens, no handler sees it."""


@contextmanager
def killed_at(dice: Random, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Before or after one of its calls to Redis, chosen at random; or not at all."""
    (module, step), after, left = dice.choice(STEPS), dice.random() < 0.5, dice.randrange(4)
    honest: Callable[..., Any] = getattr(module, step)

    def deadly(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and not after:
            raise Killed
        answer = honest(*arguments)
        if left == 0:
            raise Killed
        return answer

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(module, step, deadly)
        yield


def told(group: Group) -> dict[str, Drain]:
    view = live_groups.read(group.name, Purpose.LOOK)
    return {m: row.drain for m, row in view.members.items() if row.drain is not Drain.NONE}


def recorded(group: Group) -> dict[str, Drain]:
    rows = ScaleDown.objects.filter(group=group, state=ScaleDownState.RUNNING)
    return {
        m: Drain.FORCED if row.members[m]["forced"] else Drain.LEAVING
        for row in rows
        for m in row.remaining()
    }


def some_deed(group: Group, dice: Random) -> None:
    """What a person or the tick does; one that is refused has done nothing."""
    running = ScaleDown.objects.filter(group=group, state=ScaleDownState.RUNNING).first()
    with suppress(EvenkeelError):
        match dice.choice(("start", "tick", "tick", "force", "abort", "extend")):
            case "start":
                members = dice.sample(MEMBERS, dice.randint(1, 3))
                limit = dice.choice((None, None, 0, 60_000))
                scale_down.start(group, members=members, timeout_ms=limit, by=BY_ANN)
            case "tick":
                there = Group.objects.get(pk=group.pk)
                carry_out(
                    rules.tick(record_of(there), Coordination.SERVER), Here(there.name, there)
                )
            case "force" if running:
                scale_down.force(running, dice.choice(sorted(running.members)), by=BY_ANN)
            case "abort" if running:
                scale_down.abort(running, by=BY_ANN)
            case "extend" if running:
                scale_down.extend(running, 90_000, by=BY_ANN)


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(12))
def test_a_kill_anywhere_is_made_good_by_the_next_tick(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    scene, dice = Scene(group_name, MEMBERS), Random(seed)
    for _ in range(25):
        with killed_at(dice, monkeypatch):
            some_deed(scene.group, dice)
        if dice.random() < 0.3:
            coordinator.tick()
            assert told(scene.group) == recorded(scene.group)
    coordinator.tick()
    assert told(scene.group) == recorded(scene.group)
    assert ScaleDown.objects.filter(state="running").count() <= 1
    started = AuditEntry.objects.filter(action="scale down", result="done").count()
    assert started == ScaleDown.objects.count(), "each is audited once"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(3))
def test_deeds_that_race_leave_redis_as_the_records_say(
    store: Any, group_name: str, seed: int
) -> None:
    scene = Scene(group_name, MEMBERS)
    failures: list[BaseException] = []

    def act(dice: Random) -> None:
        try:
            for _ in range(15):
                with suppress(OperationalError):  # SQLite is busy: a person tries again
                    some_deed(scene.group, dice)
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=act, args=(Random(f"{seed}/{n}"),)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    coordinator.tick()
    assert told(scene.group) == recorded(scene.group)


@pytest.mark.django_db
def test_an_old_view_never_undoes_an_abort(store: Any, group_name: str) -> None:
    """A tick that read before, and tells after."""
    scene = Scene(group_name, MEMBERS)
    row = scale_down.start(scene.group, members=["S2"], by=BY_ANN)
    version = Group.objects.get(pk=scene.group.pk).scale_downs_version
    run(set_drain(Drain.NONE, ["S2"], version), group_name)  # it is to be told again
    old = live_groups.read(group_name, Purpose.LOOK)
    scale_down.abort(row, by=BY_ANN)
    coordinator.advance(scene.group, old)
    assert told(scene.group) == {}


@pytest.mark.django_db
def test_nothing_moves_when_everything_restarts(store: Any, group_name: str) -> None:
    """The coordinator's memory is what members report: another one gives the same target."""
    scene = Scene(group_name, MEMBERS)
    scale_down.start(scene.group, members=["S2"], by=BY_ANN)
    scene.round()
    before = scene.owned, scene.learning()
    for _ in range(3):
        scene.group = Group.objects.get(pk=scene.group.pk)
        run(request_rebalance("manual"), group_name)
        scene.round()
    assert (scene.owned, scene.learning()) == before
    assert scene.last.moved == 0
