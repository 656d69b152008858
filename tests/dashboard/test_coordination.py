"""The switch: by command, with and without a database; what is kept of it, what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from assignment.scripts.dashboard_side import configure, join, set_incarnation, set_mode
from assignment.scripts.group_read import Meta, Purpose
from assignment.types import Coordination, GroupSettings, Reason
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.live import groups as live_groups
from dashboard.live.connection import StoreUnavailable
from dashboard.live.scripts import run
from dashboard.models import AuditEntry, AuditSource, Group
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.scenes import settle

ROOT = Path(__file__).parents[2]
CLIENT, SERVER = Coordination.CLIENT, Coordination.SERVER
WHY = ("--reason", "a test")


def switched(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    call_command("coordination", *arguments, *WHY, "--json")
    return json.loads(capsys.readouterr().out)


def refused(*arguments: str) -> str:
    """One sentence, and exit code 3."""
    with pytest.raises(CommandError) as said:
        call_command("coordination", *arguments)
    assert said.value.returncode == 3
    assert "\n" not in str(said.value)
    return str(said.value)


def meta(name: str) -> Meta:
    return live_groups.read(name, Purpose.LOOK).meta


def audited() -> list[AuditEntry]:
    return list(
        AuditEntry.objects.filter(action="switch coordination", result="done").order_by("id")
    )


def never_ticked(store: Any, prefix: str) -> None:
    store.delete(f"{prefix}:ticker")


def test_it_is_switched_there_and_back_and_nothing_moves(
    group: Group, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = FakeAgent(group, "a")
    agent.start()
    settle(group, [agent])
    before = live_groups.read(group.name, Purpose.LOOK)
    found = switched(capsys, group.name, "client")
    assert found == {
        "group": group.name, "coordination": "client", "mode_epoch": 2, "incarnation": 1,
        "changed": True, "before": {"coordination": "server", "mode_epoch": 1},
    }  # fmt: skip
    switched(capsys, group.name, "server", "--expect-mode-epoch", "2")
    after = live_groups.read(group.name, Purpose.LOOK)
    assert (after.meta.coordination, after.meta.mode_epoch) == (SERVER, 3)
    assert (after.grants, after.target) == (before.grants, before.target)
    assert after.meta.group_epoch == before.meta.group_epoch
    entries = audited()
    assert [e.after for e in entries] == [
        {"coordination": "client", "mode_epoch": 2}, {"coordination": "server", "mode_epoch": 3},
    ]  # fmt: skip
    assert [e.before for e in entries] == [
        {"coordination": "server", "mode_epoch": 1}, {"coordination": "client", "mode_epoch": 2},
    ]  # fmt: skip
    assert {(e.source, e.reason) for e in entries} == {(AuditSource.COMMAND, "a test")}


def test_what_is_so_already_is_done_and_not_audited_again(
    group: Group, capsys: pytest.CaptureFixture[str]
) -> None:
    switched(capsys, group.name, "client")
    again = switched(capsys, group.name, "client")
    assert (again["changed"], again["mode_epoch"]) == (False, 2)
    call_command("coordination", group.name, "client", *WHY)
    assert "is client, mode epoch 2; it was so already" in capsys.readouterr().out
    tick()
    assert len(audited()) == 1


def test_bad_input_is_refused_with_one_sentence(
    group: Group, capsys: pytest.CaptureFixture[str]
) -> None:
    name = group.name
    switched(capsys, name, "client")
    assert refused(name, "broker", *WHY) == "coordination 'broker' is neither server nor client"
    stale = refused(name, "server", *WHY, "--expect-mode-epoch", "1")
    assert stale == f"group {name!r}: the mode epoch is 2 (client), not 1"
    assert "mode epoch 'x'" in refused(name, "server", *WHY, "--expect-mode-epoch", "x")
    assert "--reason" in refused(name, "server")
    assert "--reason" in refused(name, "server", "--reason", " ")
    assert "there is no group" in refused("nobody", "server", *WHY)
    with pytest.raises(SystemExit) as as_json:
        call_command("coordination", name, "server", *WHY, "--expect-mode-epoch", "1", "--json")
    assert as_json.value.code == 3
    assert json.loads(capsys.readouterr().out) == {"error": stale}
    assert len(audited()) == 1 and meta(name).mode_epoch == 2


def test_without_a_tick_it_does_not_go_over_to_the_server(
    group: Group, store: Any, group_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """That agents tick is no sign of a dashboard's."""
    switched(capsys, group.name, "client")
    never_ticked(store, group_name)
    live_groups.read(group.name, Purpose.TICK)  # as the agent does that computes
    assert "no dashboard ticks over this group" in refused(group.name, "server", *WHY)
    assert meta(group.name).coordination is CLIENT
    tick()
    assert switched(capsys, group.name, "server")["changed"]


def test_a_member_whose_version_cannot_keeps_it_from_the_agents(
    group: Group, agent: FakeAgent
) -> None:
    run(join("old", "a secret of sixteen letters", {"version": "0.1.0"}), group.name)
    agent.start()
    said = refused(group.name, "client", *WHY)
    assert said == (
        f"group {group.name!r}: agents coordinate from version 0.2 on, so not old (version 0.1.0)"
    )
    assert not audited()


def test_in_client_coordination_the_dashboard_computes_only_what_a_person_asks(
    group: Group, agent: FakeAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    switched(capsys, group.name, "client")
    agent.start()
    tick()
    assert coordinator.rebalance(group.name) == "coordination is client"
    assert meta(group.name).target_epoch == 0


# --- straight in Redis ----------------------------------------------------------------------------


def test_a_switch_in_redis_is_audited_by_the_next_tick(
    group: Group, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = switched(capsys, group.name, "client", "--redis-url", redis_url)
    assert found["changed"] and not audited()
    for _ in range(2):
        tick()
    (entry,) = audited()
    assert (entry.actor, entry.source) == ("evenkeel", AuditSource.COMMAND)
    assert "without a database" in entry.reason
    assert (entry.before["coordination"], entry.after["mode_epoch"]) == ("server", 2)
    group.refresh_from_db()
    assert (group.coordination, group.mode_epoch) == ("client", 2)


def forged() -> list[tuple[str, str]]:
    rows = AuditEntry.objects.filter(action="switch coordination", result__startswith="refused")
    return [(row.actor, row.result.partition(":")[0]) for row in rows]


@pytest.mark.parametrize("epoch", [1, 77])
def test_a_switch_that_nobody_asked_for_is_put_back_and_no_name_is_taken_from_redis(
    group: Group, store: Any, epoch: int
) -> None:
    """Whoever has a token of the group may write to its keys."""
    tick()
    said = {"mode_by": "root-admin", "mode_reason": "approved", "coordination": "client"}
    store.hset(GroupKeys(group.name).meta, mapping={"mode_epoch": epoch, **said})
    tick()
    assert not audited() and not AuditEntry.objects.filter(actor="root-admin").exists()
    assert meta(group.name).coordination is SERVER
    for _ in range(2):
        tick()
    group.refresh_from_db()
    assert group.coordination == "server"
    assert forged() == ([("evenkeel", "refused")] if epoch > 1 else [])


def test_a_note_of_a_switch_counts_once(
    group: Group, store: Any, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lies where others may read it."""
    switched(capsys, group.name, "client", "--redis-url", redis_url)
    tick()
    note = meta(group.name).mode_by
    switched(capsys, group.name, "server")
    again = {"mode_epoch": 9, "coordination": "client", "mode_by": note}
    store.hset(GroupKeys(group.name).meta, mapping=again)
    tick()
    assert [e.after["coordination"] for e in audited()] == ["client", "server"]
    assert meta(group.name).coordination is SERVER


def test_a_switch_by_one_that_was_killed_is_kept_with_who_asked(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard.actions import coordination

    def told(call: Any, name: str) -> Any:
        run(call, name)
        raise StoreUnavailable("killed in between")

    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
        patch.setattr(coordination, "run", told)
        coordination.switch(
            group, CLIENT, By("carol", AuditSource.PAGE, "holidays", address="10.0.0.1")
        )
    assert not audited()
    tick()
    (entry,) = audited()
    assert (entry.actor, entry.source) == ("carol", "page")
    assert (entry.reason, entry.address) == ("holidays", "10.0.0.1")


def test_a_switch_to_what_nobody_asked_for_is_refused(group: Group, store: Any) -> None:
    """It would be there already, and be put back a moment later."""
    tick()
    mapping = {"mode_epoch": 5, "coordination": "client", "mode_by": "root-admin"}
    store.hset(GroupKeys(group.name).meta, mapping=mapping)
    assert "found in Redis" in refused(group.name, "client", *WHY)
    tick()
    call_command("coordination", group.name, "client", *WHY)
    assert meta(group.name).coordination is CLIENT
    assert not group.asked_switches.exists()


def test_a_wiped_redis_gets_its_coordination_back(
    group: Group, store: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    switched(capsys, group.name, "client")
    for key in store.keys(GroupKeys(group.name).meta.removesuffix("meta") + "*"):
        store.delete(key)
    tick()
    assert meta(group.name).coordination is CLIENT
    assert len(audited()) == 1


def test_of_two_that_switch_at_once_the_slower_is_refused(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard.actions import coordination

    def overtaken(call: Any, name: str) -> Any:
        run(set_mode(meta(name).mode, CLIENT, "eve", "first"), name)
        return run(call, name)

    monkeypatch.setattr(coordination, "run", overtaken)
    assert "another one switched at the same moment" in refused(group.name, "client", *WHY)
    tick()
    assert not audited(), "nor does Redis know who was faster"
    assert meta(group.name).coordination is SERVER


@pytest.fixture
def alone(store: Any, group_name: str) -> str:
    """A group that its agents made: no row, and this test may not ask the database."""
    made = GroupSettings(stream=f"s-{group_name}", partitions=4)
    call = configure(made, Reason.SETTINGS, rebalance_due=False, coordination=CLIENT)
    run(call, group_name)
    run(set_incarnation(1), group_name)
    return group_name


def test_with_redis_alone_no_database_is_asked(
    alone: str, settings: Settings, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"  # nor the dashboard's own Redis
    found = switched(capsys, alone, "client", "--redis-url", redis_url)
    assert (found["changed"], found["mode_epoch"]) == (False, 1)
    said = refused(alone, "server", "--redis-url", redis_url, *WHY)
    assert said == f"group {alone!r}: no dashboard ticks over this group, so none would compute"
    assert "is not in Redis" in refused("nobody", "server", "--redis-url", redis_url, *WHY)
    assert "no address of a Redis" in refused(alone, "server", "--redis-url", "http://x", *WHY)


def test_the_command_works_where_there_is_no_database(
    alone: str, redis_url: str, tmp_path: Path, group_name: str
) -> None:
    """As a process of its own: the group goes over to the agents and its exit code says so."""
    environ = {
        **os.environ,
        "EVENKEEL_DATA": str(tmp_path),
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "EVENKEEL_REDIS_PREFIX": group_name,
    }

    def answer(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "manage.py", "coordination", alone, *arguments]
        command += ["--redis-url", redis_url, *WHY]
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    run(set_mode(meta(alone).mode, SERVER, "ann", "a test"), alone)
    assert answer("client", "--expect-mode-epoch", "2")[0] == 0
    assert (meta(alone).coordination, meta(alone).mode_epoch) == (CLIENT, 3)
    code, said = answer("client", "--expect-mode-epoch", "2")
    assert (code, "the mode epoch is 3 (client), not 2" in said) == (3, True)
