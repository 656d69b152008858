"""The audit's chain: only added to, in order, and what was altered behind its back is named."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from dashboard.actions import groups
from dashboard.live.connection import StoreUnavailable
from dashboard.models import AuditEntry, AuditHead, Group
from dashboard.records import anchors, audit, chain, guards
from dashboard.records.audit import By
from tests.dashboard.chained import ANN, sql, write

THREADS, EACH = 4, 8


@pytest.mark.django_db
def test_entries_are_numbered_and_hold() -> None:
    rows = write(5)
    assert [row.seq for row in rows] == [1, 2, 3, 4, 5]
    found = chain.verify()
    assert (found.broken, found.entries, found.last) == ("", 5, 5)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value",
    [
        1e22,
        -0.0,
        2**70,
        {"b": [1, 2.50], "a": None},
        "\0 \ud800 ü",
        (1, 2),
        {"é": {"9": 1, "10": 2}},
    ],
)
def test_what_is_stored_holds_when_it_is_read_again(value: Any) -> None:
    audit.record(By("a\0b\ud800", "page", "x" * 600), "turn", before=value, after=value)
    assert chain.verify().broken == ""


OTHERS: dict[str, Any] = {
    "at": datetime(2020, 1, 1, tzinfo=UTC),
    "before": {"at": 7},
    "after": {"at": 7},
    "source": "api",
    "count": 7,
}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "name",
    [field.name for field in AuditEntry._meta.fields if field.name not in ("id", "seq", "mac")],
)
def test_a_column_that_was_altered_breaks_the_chain(unguarded: None, name: str) -> None:
    write(5)
    AuditEntry.objects.filter(seq=3).update(**{name: OTHERS.get(name, "x")})
    assert "entry 3 was altered" in chain.verify().broken


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("column", "value"), [("mac", "é"), ("after", "{"), ("after", "[" * 100_000)]
)
def test_what_was_made_unreadable_breaks_the_chain(
    unguarded: None, column: str, value: str
) -> None:
    write(5)
    sql(f"UPDATE {guards.ENTRY} SET {column} = %s WHERE seq = 3", value)
    assert "entry 3 was altered" in chain.verify().broken


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.filter(seq=3).update(reason="x"), "entry 3 was altered"),
        (lambda rows: rows.filter(seq=3).update(at=timezone.now()), "entry 3 was altered"),
        (lambda rows: rows.filter(seq=3).update(before={"at": 7}), "entry 3 was altered"),
        (lambda rows: rows.filter(seq=3).delete(), "entry 3 is missing"),
        (lambda rows: rows.filter(seq__in=(2, 3)).delete(), "entries 2 to 3 are missing"),
        (lambda rows: rows.filter(seq__lte=2).delete(), "entries 1 to 2 are missing"),
        (lambda rows: rows.filter(seq=5).delete(), "entry 5 is missing: the head names 5"),
        (lambda rows: rows.filter(seq=5).update(seq=9), "entry 5 is missing: the head names 5"),
    ],
)
def test_the_first_broken_link_is_named(
    unguarded: None, change: Callable[[Any], object], said: str
) -> None:
    write(5)
    change(AuditEntry.objects)
    found = chain.verify()
    assert said in found.broken
    assert not found.ok


@pytest.mark.django_db
def test_a_row_that_nobody_chained_is_named(unguarded: None) -> None:
    write(2)
    AuditEntry.objects.create(seq=3, mac="0" * 64, at=timezone.now(), actor="eve", source="page")
    assert "entry 3 is there that nobody chained" in chain.verify().broken


@pytest.mark.django_db
@pytest.mark.parametrize("seq", [-1, 0, 2])
def test_a_row_where_none_can_be_is_named(unguarded: None, seq: int) -> None:
    write(3)
    audit.remove_before(timezone.now())
    write(1)
    AuditEntry.objects.create(seq=seq, mac="0" * 64, at=timezone.now(), actor="eve", source="page")
    assert f"entry {seq} is there that nobody chained" in chain.verify().broken
    assert not chain.verify(1).ok


@pytest.mark.django_db
def test_a_tail_that_was_cut_with_its_head_is_told_by_the_anchor(unguarded: None) -> None:
    rows = write(5)
    assert chain.anchor()
    assert not chain.anchor()
    AuditEntry.objects.filter(seq__gt=3).delete()
    AuditHead.objects.update(seq=3, mac=rows[2].mac)
    assert "entries 4 to 5 are missing: the anchor of" in chain.verify().broken
    write(4)  # the chain goes on past the anchor's number
    assert "entry 5 is another one than the anchor of" in chain.verify().broken


@pytest.mark.django_db
def test_a_tail_that_was_cut_is_not_hidden_by_the_next_anchor(
    unguarded: None, caplog: pytest.LogCaptureFixture
) -> None:
    rows = write(5)
    assert chain.anchor()
    AuditEntry.objects.filter(seq__gt=3).delete()
    AuditHead.objects.update(seq=3, mac=rows[2].mac)
    for _ in range(2):  # said each time; and again when entries have passed the anchor's number
        assert not chain.anchor()
        assert "the audit's chain gets no anchor" in caplog.text
        caplog.clear()
        write(2)
    assert "entry 5 is another one than the anchor of" in chain.verify().broken
    assert [noted.seq for noted in anchors.read()] == [5]


@pytest.mark.django_db
def test_two_anchors_that_name_different_entries_are_a_break(anchor_file: Path) -> None:
    rows = write(5)
    anchor_file.write_text(
        f"anchor 3 {'0' * 64} 2026-01-01T00:00:00+00:00\n"
        f"anchor 3 {rows[2].mac} 2026-01-02T00:00:00+00:00\n"
    )
    assert "entry 3 is another one than the anchor of 2026-01-01" in chain.verify().broken
    assert "entry 3 is another one than the anchor of 2026-01-01" in chain.lost()
    audit.remove_before(timezone.now())
    assert "entry 3 is another one than the anchor of 2026-01-0" in chain.verify().broken


@pytest.mark.django_db
def test_an_audit_that_was_emptied_never_holds_again(
    unguarded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "LINES_MAX", 4)
    write(5)
    chain.anchor()
    AuditEntry.objects.all().delete()
    AuditHead.objects.all().delete()
    assert "entries 1 to 5 are missing: the anchor of" in chain.verify().broken
    for _ in range(12):
        write(1)
        chain.anchor()
    assert "entry 5 is another one than the anchor of" in chain.verify().broken


@pytest.mark.django_db
def test_an_anchor_of_what_a_checkpoint_removed_is_not_lost() -> None:
    write(3)
    assert chain.anchor()
    later = timezone.now()
    assert audit.remove_before(later) == 3
    assert chain.lost() == ""  # the head still names that entry
    write(2)
    audit.remove_before(timezone.now())
    assert chain.lost() == ""
    assert chain.anchor()
    assert chain.verify().ok


@pytest.mark.django_db
def test_not_ready_while_the_chain_has_lost_its_anchor(
    client: Client, store: Any, unguarded: None
) -> None:
    rows = write(5)
    chain.anchor()
    guards.put(connection)
    assert client.get("/readyz").json()["checks"]["audit"] == {"guarded": True, "anchored": True}
    guards.lift(connection)
    AuditEntry.objects.filter(seq__gt=3).delete()
    AuditHead.objects.update(seq=3, mac=rows[2].mac)
    guards.put(connection)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert any("it ends at entry 3, the anchor of" in why for why in answer.json()["why"])


@pytest.mark.django_db
def test_an_entry_with_a_former_key_behind_one_with_a_later_one(
    unguarded: None, settings: Settings
) -> None:
    former = settings.AUDIT_KEYS[0]
    write(2)
    settings.AUDIT_KEYS = ["n" * 40, former]
    *_, third, fourth = write(2)
    assert chain.verify().ok
    fourth.actor = "eve"  # all that she has is the former key
    fourth.mac = chain.mac_of(former, third.mac, fourth)
    fourth.save()
    AuditHead.objects.update(mac=fourth.mac)
    found = chain.verify()
    assert "entry 4 was made with a former key, behind one of a later key" in found.broken
    assert (found.at_seq, chain.verify(1).ok) == (4, True)  # of the last alone it is not known


@pytest.mark.django_db
def test_another_key_verifies_nothing_and_a_former_one_all(settings: Settings) -> None:
    write(2)
    former = settings.AUDIT_KEYS
    settings.AUDIT_KEYS = ["k" * 40]
    assert "entry 1 was altered" in chain.verify().broken
    settings.AUDIT_KEYS = ["k" * 40, *former]
    write(1)
    assert chain.verify().ok


@pytest.mark.django_db
def test_the_anchor_file_is_private_and_bounded(
    anchor_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "LINES_MAX", 4)
    for _ in range(6):
        write(1)
        chain.anchor()
    assert anchor_file.stat().st_mode & 0o777 == 0o600
    assert len(anchors.read()) <= 4
    assert anchors.read()[-1].seq == 6
    assert chain.verify().ok


@pytest.mark.django_db
def test_what_is_kept_no_longer_leaves_a_checkpoint() -> None:
    write(3)
    later = timezone.now()
    write(2)
    assert audit.remove_before(later) == 3
    assert list(AuditEntry.objects.order_by("seq").values_list("seq", flat=True)) == [4, 5, 6]
    found = chain.verify()
    assert (found.broken, found.first, found.through) == ("", 4, 3)
    assert audit.remove_before(later) == 0
    assert audit.remove_before(timezone.now() + timedelta(days=1)) == 3
    assert chain.verify().ok


@pytest.mark.django_db
def test_a_front_that_went_without_a_checkpoint_is_named(unguarded: None) -> None:
    rows = write(4)
    AuditEntry.objects.filter(seq__lte=2).delete()
    AuditHead.objects.update(through=2, through_mac=rows[1].mac)
    assert "no checkpoint removed them" in chain.verify().broken


@pytest.mark.django_db
def test_the_last_entries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "ROWS_AT_ONCE", 2)
    write(7)
    found = chain.verify(3)
    assert (found.broken, found.entries, found.first, found.is_whole) == ("", 3, 5, False)


@pytest.mark.django_db
def test_a_refusal_stays_on_record_when_all_else_is_taken_back() -> None:
    def change() -> None:
        with audit.atomic():
            audit.record(ANN, "done first")
            with audit.atomic():
                audit.tried(ANN, "turn", result="refused: too heavy")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        change()
    (entry,) = AuditEntry.objects.all()
    assert (entry.action, entry.result) == ("turn", "refused: too heavy")
    assert chain.verify().ok


def test_what_an_action_refuses_is_on_record(group: Group) -> None:
    with pytest.raises(groups.Refused):
        groups.create_group(group.name, ANN, stream=group.name, partitions=4)
    entry = AuditEntry.objects.get(action="create group", actor="ann", result__startswith="refused")
    assert entry.result == f"refused: group {group.name!r} exists already"
    assert (entry.group, entry.object) == (group.name, group.name)


def test_what_redis_did_not_answer_has_failed_and_is_on_record(
    group: Group, point_at: Callable[[str], None]
) -> None:
    point_at("redis://127.0.0.1:1/0")
    with pytest.raises(StoreUnavailable):
        groups.create_group("h", ANN, stream="h", partitions=4)
    entry = AuditEntry.objects.get(group="h")
    assert (entry.action, entry.actor) == ("create group", "ann")
    assert entry.result.startswith("failed: Redis at 127.0.0.1:1")


@pytest.mark.django_db
def test_the_command_says_whether_it_holds(unguarded: None, capsys: Any) -> None:
    write(3)
    call_command("audit_verify")
    assert "The chain holds: 3 entries, 1 to 3." in capsys.readouterr().out
    AuditEntry.objects.filter(seq=2).update(actor="bob")
    with pytest.raises(SystemExit) as ended:
        call_command("audit_verify", "--json")
    assert ended.value.code == 1
    assert '"at_seq": 2' in capsys.readouterr().out
    with pytest.raises(CommandError, match="nothing is removed from a broken chain"):
        call_command("audit_verify", "--keep-days", "1")


@pytest.mark.django_db(transaction=True)
def test_concurrent_writers_chain_in_order() -> None:
    """Each in transactions that write other rows too, before and after the entry."""
    Group.objects.create(name="g", stream="g", partitions=1, settings={}, created_by="ann")
    errors: list[BaseException] = []
    begin = threading.Barrier(THREADS)

    def work(number: int) -> None:
        try:
            begin.wait()
            for turn in range(EACH):
                with audit.atomic():
                    audit.record(By(f"writer {number}", "page"), "turn", after={"turn": turn})
                    Group.objects.filter(name="g").update(incarnation=turn)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    found = chain.verify()
    assert (found.broken, found.entries) == ("", THREADS * EACH)
