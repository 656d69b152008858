"""What people do to groups and tokens, from pages and commands alike."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from assignment.errors import InvalidInput
from assignment.scripts.group_read import Purpose
from assignment.wire import StreamKeys
from dashboard.actions import groups
from dashboard.agents import tokens
from dashboard.live import groups as live_groups
from dashboard.models import AgentToken, AuditEntry, AuditSource, Group
from dashboard.records.audit import By

pytestmark = pytest.mark.django_db
BY = By("ann", AuditSource.PAGE)


def test_a_group_is_made_with_its_stream(store: Any, group_name: str) -> None:
    group = groups.create_group(group_name, stream=f"s-{group_name}", partitions=3, by=BY)
    assert store.hget(StreamKeys(group.stream).meta, "partitions") == b"3"
    assert store.smembers(StreamKeys(group.stream).groups) == {group.name.encode()}
    assert live_groups.read(group.name, Purpose.LOOK).meta.settings == group.values
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.object) == ("ann", "create group", group.name)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"name": "a b"}, "'a b'"),
        ({"stream": "a b"}, "'a b'"),
        ({"partitions": 0}, "partitions 0"),
        ({"strategy": "luck"}, "'luck'"),
        ({"lease_ms": 100}, "lease_ms 100"),
        ({"colour": 1}, "colour"),
    ],
)
def test_bad_values_make_nothing(
    store: Any, group_name: str, values: dict[str, Any], named: str
) -> None:
    given = {"name": group_name, "stream": f"s-{group_name}", "partitions": 3} | values
    with pytest.raises(InvalidInput, match=named):
        groups.create_group(**given, by=BY)
    assert not Group.objects.exists()
    assert not AuditEntry.objects.filter(result="done").exists()
    assert not store.exists(StreamKeys(f"s-{group_name}").meta)


def test_a_taken_name_and_a_stream_of_another_size_are_refused(group: Group) -> None:
    with pytest.raises(groups.Refused, match="exists already"):
        groups.create_group(group.name, stream=group.stream, partitions=4, by=BY)
    with pytest.raises(groups.Refused, match="has 4 partitions, not 5"):
        groups.create_group(f"{group.name}-b", stream=group.stream, partitions=5, by=BY)


def test_settings_are_refused_as_a_whole(group: Group) -> None:
    with pytest.raises(InvalidInput, match="session_timeout_ms 20000 is above"):
        groups.change_settings(group, {"grace_ms": 9000, "session_timeout_ms": 20_000}, by=BY)
    with pytest.raises(InvalidInput, match="partitions of a group cannot be changed"):
        groups.change_settings(group, {"partitions": 9}, by=BY)
    group.refresh_from_db()
    assert group.values.grace_ms == 8000


def test_nothing_changed_is_not_audited(group: Group) -> None:
    before = AuditEntry.objects.count()
    groups.change_settings(group, {"grace_ms": group.values.grace_ms}, by=BY)
    assert AuditEntry.objects.count() == before


def test_a_setting_that_is_newer_than_the_group_is_not_said_to_have_changed(group: Group) -> None:
    older = {name: value for name, value in group.settings.items() if name != "trimming"}
    Group.objects.filter(pk=group.pk).update(settings=older)
    groups.change_settings(group, {"grace_ms": 9_000}, by=BY)
    entry = AuditEntry.objects.get(action="change settings")
    assert (entry.before, entry.after) == ({"grace_ms": 8_000}, {"grace_ms": 9_000})


def test_a_token_is_kept_as_its_digest_only(group: Group) -> None:
    made = groups.create_token(group, name="t", by=BY)
    assert made.token.digest == tokens.digest_of(made.text)
    assert made.text not in str(
        list(AgentToken.objects.values()) + list(AuditEntry.objects.values())
    )
    assert len(made.text) > 43, "256 bits"


def test_rotating_revokes_the_old_one_and_keeps_name_and_expiry(group: Group) -> None:
    expires_at = timezone.now() + timedelta(days=1)
    old = groups.create_token(group, name="t", expires_at=expires_at, by=BY).token
    new = groups.rotate_token(old, by=BY).token
    old.refresh_from_db()
    assert old.revoked_at is not None
    assert (new.name, new.expires_at, new.revoked_at) == ("t", expires_at, None)
    with pytest.raises(groups.Refused, match="is revoked"):
        groups.rotate_token(old, by=BY)


def test_a_past_expiry_and_an_empty_name_are_refused(group: Group) -> None:
    with pytest.raises(InvalidInput, match="is past"):
        groups.create_token(group, expires_at=timezone.now() - timedelta(days=1), by=BY)
    with pytest.raises(InvalidInput, match="token name"):
        groups.create_token(group, name=" ", by=BY)


def test_the_commands_print_what_to_run_next(
    store: Any, group_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("create_group", group_name, stream=group_name, partitions=2)
    call_command("create_token", group_name)
    told = capsys.readouterr().out
    assert told.count(f"evenkeel-agent --group {group_name} --dashboard http") == 2
    assert told.count("EVENKEEL_TOKEN=ekt_") == AgentToken.objects.count() == 2


def test_the_commands_name_what_is_wrong(store: Any, group_name: str) -> None:
    with pytest.raises(CommandError, match="'luck'"):
        call_command("create_group", group_name, stream="s", partitions=2, strategy="luck")
    with pytest.raises(CommandError, match="no group 'nowhere'"):
        call_command("create_token", "nowhere")


def test_the_command_makes_a_stateful_group(store: Any, group_name: str, db: None) -> None:
    chosen = {"stateful": True, "standby_replicas": 1}
    call_command("create_group", group_name, stream=group_name, partitions=2, **chosen)
    values = Group.objects.get(name=group_name).values
    assert (values.stateful, values.standby_replicas) == (True, 1)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer")
@pytest.mark.django_db(transaction=True)
def test_rows_that_name_a_group_do_not_wait_for_who_changes_it(group: Group) -> None:
    def added() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")
        group.gaps.create(at_ms=1, events_lost=1)
        connection.close()

    with ThreadPoolExecutor(1) as others, transaction.atomic():
        Group.locked(group.pk)
        others.submit(added).result()
    assert group.gaps.count() == 1
